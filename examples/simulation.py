"""Learn how a neuron moves, and simulate what is not known about it.

    python examples/simulation.py

Noisy velocities of the FitzHugh-Nagumo model are all that is seen. Every path then
moves with its own draw of the drift, the same at each step; the spread of the paths
is what 200 velocities leave open about the future, on top of the process noise.
"""

import time

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpx import DecoupledSampler
from skgpx.simulation import simulate_ode, simulate_sde

NOISE = 0.05
PATHS = 300


def velocity(states, current=0.5):
    """FitzHugh-Nagumo: a fast voltage and a slow recovery."""
    v, w = states[:, 0], states[:, 1]
    return np.column_stack((v - v**3 / 3.0 - w + current, 0.08 * (v + 0.7 - 0.8 * w)))


def main():
    """Print an interval of the paths beside the truth."""
    rng = np.random.default_rng(0)
    X = rng.uniform([-2.5, -1.0], [2.5, 2.0], size=(200, 2))
    y = velocity(X) + NOISE * rng.standard_normal(X.shape)
    noise = WhiteKernel(0.1, (1e-6, 10.0))
    kernel = ConstantKernel(10.0, "fixed") * RBF([2.0, 2.0], (0.2, 1e3)) + noise
    regressor = GaussianProcessRegressor(kernel, normalize_y=True)
    # one model for each velocity: they differ in scale, and so in relative noise
    samplers = [DecoupledSampler(regressor).fit(X, column) for column in y.T]

    start, t = [-1.0, 1.0], np.linspace(0.0, 40.0, 41)
    began = time.perf_counter()
    drift = [
        sampler.sample_functions(PATHS, random_state=seed)
        for seed, sampler in enumerate(samplers)
    ]
    paths = simulate_ode(drift, start, t, n_substeps=5)
    noisy = simulate_sde(drift, start, t, 0.05, n_substeps=10, random_state=0)
    duration = time.perf_counter() - began

    truth = true_path(start, t)
    print("90 % of the paths, voltage")
    print(f"{'time':>6}{'truth':>10}{'drift unknown':>20}{'and process noise':>20}")
    for i in range(0, len(t), 5):
        low, high = np.quantile(paths[i, :, 0], (0.05, 0.95))
        noisy_low, noisy_high = np.quantile(noisy[i, :, 0], (0.05, 0.95))
        print(
            f"{t[i]:6.0f}{truth[i, 0]:10.2f}{low:12.2f} {high:7.2f}"
            f"{noisy_low:12.2f} {noisy_high:7.2f}"
        )
    print(f"{PATHS} paths, {len(t)} times, drawn and simulated in {duration:.1f} s")


def true_path(start, t, n_substeps=100):
    """The path of the true drift, in small Euler steps."""
    x, path = np.array([start], dtype=float), [np.array(start)]
    for step in np.diff(t):
        for _ in range(n_substeps):
            x = x + step / n_substeps * velocity(x)
        path.append(x[0])
    return np.array(path)


if __name__ == "__main__":
    main()
