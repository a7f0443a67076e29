"""
Approximate a kernel by Stein features
======================================

Cosines and sines of a few frequencies approximate a stationary kernel. Independent
frequencies form clusters and leave holes. :class:`~skgpx.SteinFourierFeatures` moves
them by Stein variational gradient descent, so that they follow the spectral density and
keep apart.
"""

# %%
# Frequencies of an RBF with two inputs
# -------------------------------------
# The pale points are the mirror images, which are the same waves.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem

from skgpx import SteinFourierFeatures

names = {"mc": "independent", "halton": "Halton", "stein": "Stein"}
rng = np.random.default_rng(0)
X = np.sqrt(0.5) * rng.normal(size=(400, 2))
figure, axes = plt.subplots(
    1, 3, figsize=(9.0, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axis, (method, name) in zip(axes, names.items(), strict=True):
    model = SteinFourierFeatures(RBF(), method=method, random_state=0).fit(X)
    axis.plot(*-model.frequencies_.T, "o", ms=3.0, mew=0.0, color="C0", alpha=0.3)
    axis.plot(*model.frequencies_.T, "o", ms=3.0, mew=0.0, color="C0")
    axis.set(xlim=(-3.4, 3.4), ylim=(-3.4, 3.4), aspect="equal", title=name)
    axis.set_xlabel("ω₁")
axes[0].set_ylabel("ω₂")

# %%
# Error of the kernel matrix
# --------------------------
# The figures show the relative error of ``Z @ Z.T`` for kernels with a lengthscale of
# √d, as means of three seeds. With as many columns
# :class:`~sklearn.kernel_approximation.Nystroem`, whose features depend on the rows, is
# more accurate. Fourier features do not depend on the rows, and suit streams and
# functions that are evaluated elsewhere.
sizes = (10, 20, 50, 100, 200)


def error(kernel, X, transformer):
    Z, K = transformer.fit_transform(X), kernel(X)
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


def mean_errors(kernel, X, make):
    return [np.mean([error(kernel, X, make(r, s)) for s in range(3)]) for r in sizes]


figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), sharey=True, layout="constrained")
for axis, d in zip(axes, (2, 8), strict=True):
    X, kernel = rng.normal(size=(600, d)), RBF(np.sqrt(d))
    for (method, name), marker in zip(names.items(), "os^", strict=True):

        def features(size, seed, kernel=kernel, method=method):
            return SteinFourierFeatures(
                kernel, n_frequencies=size, method=method, random_state=seed
            )

        axis.loglog(sizes, mean_errors(kernel, X, features), f"{marker}-", label=name)

    def nystroem(size, seed, kernel=kernel):
        return Nystroem(kernel, n_components=2 * size, random_state=seed)

    axis.loglog(sizes, mean_errors(kernel, X, nystroem), "k--", label="Nyström")
    axis.set(title=f"{d} inputs", xlabel="frequencies (half the columns)")
    axis.set(ylim=(1e-6, 1.0), xticks=sizes, xticklabels=sizes)
    axis.minorticks_off()
axes[0].set_ylabel("relative error")
axes[1].legend(loc="lower left")
plt.show()
