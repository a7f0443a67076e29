"""
Simulate a neuron from noisy velocities
=======================================

The data are noisy velocities of a FitzHugh-Nagumo neuron. Each simulated path follows
its own draw of the drift, which is the same function at every step. New values at each
step would average the uncertainty out instead. The spread of the paths is the
uncertainty about the future that the velocities leave.
"""

# %%
# Data
# ----
# There are two hundred states and their velocities. The states are a fast voltage and a
# slow recovery.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import DecoupledSampler
from skgpx.simulation import simulate_ode, simulate_sde

PATHS = 200


def velocity(states, current=0.5):
    v, w = states[:, 0], states[:, 1]
    return np.column_stack((v - v**3 / 3.0 - w + current, 0.08 * (v + 0.7 - 0.8 * w)))


rng = np.random.default_rng(0)
X = rng.uniform([-2.5, -1.0], [2.5, 2.0], size=(200, 2))
y = velocity(X) + 0.05 * rng.standard_normal(X.shape)

# %%
# Drift, and paths
# ----------------
# Each velocity has its own model, because the two differ in scale and in relative
# noise.
noise = WhiteKernel(0.1, (1e-6, 10.0))
kernel = ConstantKernel(10.0, "fixed") * RBF([2.0, 2.0], (0.2, 1e3)) + noise
regressor = GaussianProcessRegressor(kernel, normalize_y=True)
samplers = [DecoupledSampler(regressor).fit(X, column) for column in y.T]
drift = [
    sampler.sample_functions(PATHS, random_state=seed)
    for seed, sampler in enumerate(samplers)
]
start, t = [-1.0, 1.0], np.linspace(0.0, 60.0, 121)
paths = simulate_ode(drift, start, t, n_substeps=3)
noisy = simulate_sde(drift, start, t, 0.05, n_substeps=5, random_state=0)

# the true path, in small Euler steps
x, truth = np.array([start]), [start]
for step in np.diff(t):
    for _ in range(50):
        x = x + step / 50 * velocity(x)
    truth.append(x[0])
truth = np.array(truth)

# %%
# Paths
# -----
# Left: intervals of the voltage that hold 90 % of the paths. Right: paths in the plane
# of the states; grey points are the states of the data.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.0, 4.0), width_ratios=(3, 2), layout="constrained"
)
bands = {"with process noise": (noisy, "C1", ""), "drift unknown": (paths, "C0", "//")}
for name, (some, color, hatch) in bands.items():
    low, high = np.quantile(some[:, :, 0], (0.05, 0.95), axis=1)
    left.fill_between(t, low, high, color=color, alpha=0.3, hatch=hatch, label=name)
left.plot(t, truth[:, 0], "k", lw=1.0, label="truth")
left.set(xlabel="time", ylabel="voltage v", ylim=(-3.0, 3.4))
left.legend(ncols=3, loc="upper center", fontsize=8)
right.plot(*X.T, ".", color="0.6", ms=3.0, label="states of the data")
right.plot(*paths[:, :40].transpose(2, 0, 1), "C0", lw=0.5, alpha=0.4)
right.plot(*truth.T, "k", lw=1.0)
right.set(xlabel="voltage v", ylabel="recovery w")
right.legend(loc="upper right", fontsize=8)
plt.show()
