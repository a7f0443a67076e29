"""Search on in neighbourhoods, where many rows show how a function varies nearby."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skgpx._hyperparameters._climb import Found, climb, with_noise
from skgpx._hyperparameters._search_record import SearchRecord
from skgpx._hyperparameters._search_rows import Sample, compared, sampled
from skgpx._hyperparameters._sparse_density import sparse_density
from skgpx._parallel import side_by_side
from skgpx._validation import Rows
from skgpx.kernels import length_scale_entries, length_scales

Array = NDArray[np.float64]

_NEAR_ITER = 20
# Neighbourhoods, and the rows of each, that show how the function varies nearby.
_BLOCKS, _BLOCK_ROWS = 5, 300
# Rows so many times closer to each other than those of the search may show finer
# structure, which takes more points: the numbers of points of the model that decides.
_DENSER, _POINTS = 2.0, (600, 1500)


def finer_structure(found: Found, sample: Sample, n_jobs: int | None = None) -> Found:
    """Search on with neighbourhoods besides, where many rows are there to judge.

    1500 of many rows are far apart: how the function varies nearby is seen in rows
    that are neighbours. The finer structure found may be more than a sparse model can
    follow, so a sparse model of other rows decides, with the noise that serves it best.
    Where the rows are much denser than 1500 of them, as on a long time axis, a search
    starts from lengthscales that are as much shorter, too.
    """
    if sample.others is None or sample.judges is None or not found.candidate.n_free:
        return found
    blocks = (sample.some, *_neighbourhoods(found.kernel, sample.others))
    shape = found.candidate, found.likelihood, blocks
    searches = [(*shape, found.u, _NEAR_ITER)]
    denser = sample.density_ratio()
    if denser >= _DENSER:
        quiet = with_noise(found.likelihood, 0.1 * found.noise_variance)
        shorter = _shorter(found, denser)
        searches.append((found.candidate, quiet, blocks, shorter, _NEAR_ITER))
    all_found = [found, *side_by_side(climb, searches, n_jobs)]
    n_points, noise = _POINTS[denser >= _DENSER], _noise_range(all_found)
    judged = [(one, noise, n_points) for one in all_found]
    scores = side_by_side(_score, judged, n_jobs, sample)
    best = int(np.argmax(scores))
    return all_found[best]._replace(
        record=_record(found, sample, blocks[1:] * (best > 0))
    )


def _record(found: Found, sample: Sample, near: tuple[Rows, ...]) -> SearchRecord:
    """That of what was found, judged by rows kept out, and the neighbourhoods read."""
    record = compared(found.record, sample.judges)
    if not near:
        return record
    return record._replace(neighbourhoods=f"{len(near)} of {len(near[0].y)} rows")


def _score(
    sample: Sample, found: Found, noise: tuple[float, float], n_points: int
) -> float:
    """Held-out density of its sparse model of other rows, of as many points."""
    assert sample.others is not None
    assert sample.judges is not None
    parts = sample.others, sample.judges
    try:
        return sparse_density(found.kernel, noise, *parts, n_points)
    except np.linalg.LinAlgError:
        return -np.inf


def _shorter(found: Found, factor: float) -> Array:
    """Coordinates with all lengthscales divided by a factor, within their bounds."""
    candidate = found.candidate
    lengths = np.zeros(len(candidate.ties))
    for entries in length_scale_entries(candidate.kernel):
        lengths[entries] = 1.0
    moved = candidate.ties.T @ lengths > 0.0
    return np.clip(found.u - np.log(factor) * moved, *candidate.bounds.T)


def _noise_range(found: list[Found]) -> tuple[float, float]:
    """Where the noise of a sparse model may lie; its own where it is fixed."""
    noise = [one.noise_variance for one in found]
    if not len(found[0].likelihood.theta):
        return noise[0], noise[0]
    return min(noise), 10.0 * max(noise)


def _neighbourhoods(kernel: Any, rows: Rows) -> list[Rows]:
    """Rows nearest to a few evenly chosen ones, in units of the lengthscales."""
    scaled = rows.X / length_scales(kernel, rows.X.shape[1])
    n = len(scaled)
    size = min(_BLOCK_ROWS, n)
    blocks = []
    for centre in np.linspace(0, n - 1, _BLOCKS + 2)[1:-1].astype(np.intp):
        distance = np.sum((scaled - scaled[centre]) ** 2, axis=1)
        nearest = np.argpartition(distance, size - 1)[:size]
        blocks.append(sampled(rows, nearest))
    return blocks
