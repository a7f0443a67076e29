"""
Fit a file in chunks, and merge parts
=====================================

Regression on waves needs only sums over the rows. A file that is larger than memory can
therefore be read in chunks, and chunks on several machines can be summed where they
are: the models of the parts are added, and their sum is the fit to all rows.
"""

# %%
# A file
# ------
# The file is a memory map; row groups of a parquet file are read in the same way. The
# ``domain``, the range of all inputs, must be known before the first chunk.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skgpx import SpectralVGPRegressor


def signal(t):
    return np.sin(2.0 * t) + 0.5 * np.sin(5.0 * t) * np.exp(-0.5 * (t - 5.0) ** 2)


rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.bin"
rows = np.memmap(path, np.float64, "w+", shape=(200_000, 2))
rows[:, 0] = rng.uniform(0.0, 10.0, len(rows))
rows[:, 1] = signal(rows[:, 0]) + rng.standard_normal(len(rows))
rows.flush()

# %%
# Chunk by chunk
# --------------
# Only sums over each chunk are kept. Where predictions are read after each chunk, the
# hyperparameters are searched again from all sums, at a cost that does not depend on
# the number of rows: prefer large chunks.
file = np.memmap(path, np.float64, "r", shape=(200_000, 2))
settings = {"kernel": 1.0 * RBF(1.0), "domain": [[0.0, 10.0]]}
model, grid = (
    SpectralVGPRegressor(**settings),
    np.linspace(0.0, 10.0, 400)[:, np.newaxis],
)
curves = {}
for first in range(0, len(file), 50_000):
    chunk = file[first : first + 50_000]
    model.partial_fit(chunk[:, :1], chunk[:, 1])
    curves[first + len(chunk)] = model.predict(
        grid, return_std=True, include_noise=False
    )

# %%
# Where the chunks are
# --------------------
# Models of parts can be added. Each part could be fitted on the machine that has its
# rows: with dask, by ``dask.delayed(fit_part)(block)`` for each block of an array, and
# ``dask.delayed(sum)(models)``.


def fit_part(part):
    return SpectralVGPRegressor(**settings).partial_fit(part[:, :1], part[:, 1])


merged = sum(fit_part(part) for part in np.array_split(file, 4))
once = SpectralVGPRegressor(**settings).fit(file[:, :1], file[:, 1])
for name, one in {"chunk by chunk": model, "merged": merged, "one fit": once}.items():
    print(f"{name:15} log evidence {one.log_evidence_:.6f}")

# %%
# The figures show the posterior minus the truth. The band narrows as rows are added,
# and after the last chunk it is that of a single fit to all rows.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
t, truth = grid[:, 0], signal(grid[:, 0])
for ax, n in zip(axes, (min(curves), max(curves)), strict=True):
    mean, std = curves[n]
    ax.fill_between(t, mean - truth - 2 * std, mean - truth + 2 * std, alpha=0.3)
    ax.plot(t, mean - truth)
    ax.axhline(0.0, color="k", ls="--", lw=0.8)
    ax.set(title=f"{n:,} rows seen", xlabel="t")
axes[0].set_ylabel("posterior (mean, two std) - truth")
del rows, file
folder.cleanup()
