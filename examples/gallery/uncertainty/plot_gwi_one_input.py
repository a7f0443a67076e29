"""
Choose between a network and a sparse mean
==========================================

Functions of one input, after Figure 3 of the paper on Gaussian Wasserstein inference:
the same covariance is put around a network and around the regression in its basis. The
second part shows the pitfall of appendix A.10: a periodic kernel around a network,
which has no period.
"""

# %%
# Two models of two functions
# ---------------------------
# There are a thousand equidistant rows with noise of standard deviation 1/2, of which
# those in a gap and at both ends are held out. There are thirty inducing points, as in
# the paper.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared

from skgpx import GWIRegressor

x = np.linspace(-10.0, 10.0, 1000)
seen = (np.abs(x - 2.5) > 1.5) & (np.abs(x) < 8.0)
functions = {
    "smooth": np.sin(x) + 0.3 * x * np.cos(0.5 * x),
    "steep": 2.0 * np.tanh(4.0 * np.sin(0.8 * x)) + 0.2 * x,
}
shared = {"n_inducing": 30, "random_state": 0}
models = {
    "GWI, network": {"mean": "net"},
    "GWI, sparse mean": {"mean": "svgp"},
}

# %%
# The mean is black, the 95 % interval of observations light blue, and that of the
# function dark blue. The true function is red; ticks are inducing points. Each title
# gives the share of held-out values of the function in the dark band.
X = x[:, np.newaxis]
figure, axes = plt.subplots(
    2, 2, figsize=(10.0, 5.5), sharex=True, sharey="col", layout="constrained"
)
for column, (kind, f) in zip(axes.T, functions.items(), strict=True):
    y = f + 0.5 * np.random.default_rng(0).standard_normal(1000)
    for axis, (name, settings) in zip(column, models.items(), strict=True):
        model = GWIRegressor(**settings, **shared).fit(X[seen], y[seen])
        mean, latent = model.predict(X, return_std=True, include_noise=False)
        std = model.predict(X, return_std=True)[1]
        axis.plot(x[seen], y[seen], ".", color="0.75", ms=2.0)
        for width, alpha in ((1.96 * std, 0.2), (1.96 * latent, 0.4)):
            low, high = mean - width, mean + width
            axis.fill_between(x, low, high, color="C0", alpha=alpha, lw=0.0)
        axis.plot(x, f, "r--", lw=1.0)
        axis.plot(x, mean, "k", lw=1.2)
        Z = model.inducing_points_[:, 0]
        axis.plot(Z, np.full(len(Z), -7.5), "k|", ms=6.0)
        held = np.mean(np.abs(mean - f)[~seen] < 1.96 * latent[~seen])
        axis.set_title(f"{kind}: {name}; band holds {held:.0%}", size=10)
        axis.set_ylim(-8.0, 8.0)
figure.supxlabel("x", fontsize=10)
figure.supylabel("y", fontsize=10)

# %%
# In the gap and at the ends both means extrapolate: the network in its own way, the
# other mean by returning to the average of ``y``. The bands have the same kernel. Where
# the function changes faster in the gap than at the rows, as the steep one does, no
# band holds all of it.
#
# A periodic kernel and a mean without a period
# ---------------------------------------------
# The data have the period two. Under a periodic kernel the standard deviation is as
# small any number of periods away as it is at the data. A mean in the basis of that
# kernel has the same period, and is right; a network has none, and is wrong where its
# band is narrow.
rng = np.random.default_rng(1)
X = rng.uniform(0.0, 6.0, (150, 1))


def wave(x):
    return np.sin(np.pi * x) + 0.4 * np.cos(2.0 * np.pi * x)


y = wave(X[:, 0]) + 0.1 * rng.standard_normal(150)
periodic = 1.0 * ExpSineSquared(1.0, periodicity=2.0, periodicity_bounds="fixed")
networks = {"mean": "net", "learning_rate_init": 0.03, "max_iter": 2000}
networks["random_state"] = 0
pitfall = GWIRegressor(kernel=periodic, **networks).fit(X, y)

# %%
# Multiplied by an RBF, the kernel loses its period away from the data, and the band is
# as wide as the prior around a network that levels off. Such a kernel suits networks;
# where the period is known, the sparse mean is right. The 95 % intervals of
# observations are blue, and the function is red.
decaying = periodic * RBF(2.0, "fixed")
fitted = {
    "network, periodic kernel": pitfall,
    "network, periodic times RBF": GWIRegressor(kernel=decaying, **networks),
    "sparse mean, periodic kernel": GWIRegressor("svgp", periodic, random_state=0),
}
x = np.linspace(0.0, 14.0, 600)
figure, axes = plt.subplots(
    3, 1, figsize=(9.0, 6.5), sharex=True, sharey=True, layout="constrained"
)
for axis, (name, model) in zip(axes, fitted.items(), strict=True):
    if model is not pitfall:
        model.fit(X, y)
    mean, std = model.predict(x[:, np.newaxis], return_std=True)
    low, high = mean - 1.96 * std, mean + 1.96 * std
    axis.plot(X, y, ".", color="0.6", ms=3.0)
    axis.fill_between(x, low, high, alpha=0.3, lw=0.0)
    axis.plot(x, wave(x), "r--", lw=1.0)
    axis.plot(x, mean, "k", lw=1.2)
    away = x > 6.0
    held = np.mean((wave(x) > low)[away] & (wave(x) < high)[away])
    axis.set_title(f"{name}; beyond the data the band holds {held:.0%}", size=10)
    axis.set(ylabel="y", ylim=(-2.5, 3.5))
axes[-1].set_xlabel("x")
plt.show()
