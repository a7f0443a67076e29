"""Streams of random numbers that may be asked for again."""

from __future__ import annotations

from typing import Any

import numpy as np


def again(rng: np.random.Generator) -> np.random.Generator:
    """The same stream at every call, as a callback may ask for a fit of any round.

    From its seed: a copy in NumPy 1 forgets that, and its children would be any.
    """
    source = rng.bit_generator
    known: Any = source.seed_seq
    seed = np.random.SeedSequence(
        known.entropy, spawn_key=known.spawn_key, pool_size=known.pool_size
    )
    return np.random.Generator(type(source)(seed))
