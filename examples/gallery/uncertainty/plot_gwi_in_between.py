"""
Put uncertainty around a network
================================

In Figure 2 of the paper on Gaussian Wasserstein inference the inputs form two clusters.
Many approximations of Bayesian networks are as certain between the clusters as within.
The standard deviation of a Gaussian process around a network grows between the clusters
and away from them.
"""

# %%
# Data
# ----
# Fifty rows around each of two points of the plane, and a smooth function of both
# columns with a little noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from skgpx import GWIRegressor

rng = np.random.default_rng(0)
centres = np.repeat([[-1.5, -1.5], [1.5, 1.5]], 50, axis=0)
X = centres + 0.4 * rng.standard_normal((100, 2))
y = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(2.0 * X[:, 1])
y += 0.1 * rng.standard_normal(100)

# %%
# The process around a network
# ----------------------------
# The mean is the average of networks; kernel and noise come from the evidence, and
# held-out rows calibrate the variances near the data. Far from it the process is that
# of the prior.
model = GWIRegressor("net", random_state=0).fit(X, y)
print(model.kernel_)

# %%
# For comparison, the exact process of the same kernel and noise.
alpha = model.noise_variance_ / y.var()
exact = GaussianProcessRegressor(
    model.kernel_, alpha=alpha, optimizer=None, normalize_y=True
).fit(X, y)

# %%
# The plane, and the line through both clusters
# ---------------------------------------------
# Left: the standard deviation of the function, without noise. Middle: the mean along
# the dashed line with two standard deviations, and six draws, which are functions of
# any input. Right: standard deviations along that line. Between the clusters the
# network extrapolates, and the band is wide. Far away the width is that of the prior,
# which does not depend on the network: here the network leaves the truth by more than
# the band allows.
side = np.linspace(-4.0, 4.0, 61)
plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
std_plane = model.predict(plane, return_std=True, include_noise=False)[1]
position = np.linspace(-4.0, 4.0, 241)
line = np.stack([position, position], axis=1)
stds = {"exact process": exact.predict(line, return_std=True)[1]}
mean, std = model.predict(line, return_std=True, include_noise=False)
stds["around the network"] = std
draws = model.sample_functions(6, random_state=0)(line)

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
left, middle, right = axes
image = left.pcolormesh(side, side, std_plane.reshape(61, 61), shading="gouraud")
left.plot(*X.T, "rx", ms=4.0)
left.plot([-4.0, 4.0], [-4.0, 4.0], "w--", lw=1.0)
left.set(xlabel="first column", ylabel="second column", aspect="equal")
left.set_title("standard deviation")
figure.colorbar(image, ax=left, shrink=0.9)
middle.fill_between(position, mean - 2.0 * std, mean + 2.0 * std, alpha=0.25, lw=0.0)
middle.plot(position, draws, "C0", lw=0.6, alpha=0.8)
middle.plot(position, mean, "k", lw=1.5)
truth = np.sin(2.0 * position) + 0.5 * np.cos(2.0 * position)
middle.plot(position, truth, "r:", lw=1.5, label="true function")
middle.set_title("mean, two standard deviations, draws")
middle.legend(loc="lower center", frameon=False)
for (name, values), style in zip(stds.items(), ("k:", "C0-"), strict=True):
    right.plot(position, values, style, label=name)
right.set_title("standard deviations on the line")
right.set_ylim(0.0, 1.6)
right.legend(loc="upper center", frameon=False)
for axis in (middle, right):
    for centre in (-1.5, 1.5):
        axis.axvspan(centre - 0.6, centre + 0.6, color="r", alpha=0.08, lw=0.0)
    axis.set(xlabel="position on the line (red: clusters)", xlim=(-4.0, 4.0))

# %%
for place, at in (("in a cluster", -1.5), ("between", 0.0), ("far away", 4.0)):
    i = int(np.argmin(np.abs(position - at)))
    values = ", ".join(f"{name} {one[i]:.3f}" for name, one in stds.items())
    print(f"{place:12} {values}")
plt.show()
