"""Types that stand in signatures of many modules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel as Kernel

# Numbers, positions of rows or columns, truth values, and values of any type.
Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]
# Positions of rows or columns, or a slice of them.
Selection: TypeAlias = Index | slice
# One value for each row, or one for all of them; None for none.
RowValues: TypeAlias = ArrayLike | None
# Fitted attributes by name.
Attributes: TypeAlias = dict[str, Any]
# Which columns interact: by a name, or as groups of them; None stands for all.
Interactions: TypeAlias = str | Sequence[Collection[int | str]] | None
# Streams of random numbers, and what scikit-learn's `check_random_state` accepts.
Generator: TypeAlias = np.random.Generator
RandomState: TypeAlias = int | np.random.RandomState | Generator | None
