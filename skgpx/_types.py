"""Types that stand in signatures of many modules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Numbers, positions of rows or columns, and truth values.
Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
# Positions of rows or columns, or a slice of them.
Selection: TypeAlias = Index | slice
# Which columns interact: by a name, or as groups of them; None stands for all.
Interactions: TypeAlias = str | Sequence[Collection[int | str]] | None
# What scikit-learn's `check_random_state` accepts, and NumPy's generators.
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
