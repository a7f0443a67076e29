"""Types that stand in signatures of many modules."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

# What scikit-learn's `check_random_state` accepts, and NumPy's generators.
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
