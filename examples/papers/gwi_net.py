"""GWI-net as in the paper: mean and covariance trained jointly.

    python examples/papers/gwi_net.py

Wild, Hu and Sejdinovic, "Generalized variational inference in function spaces: Gaussian
measures meet Bayesian deep learning", NeurIPS 2022. A network of two hidden layers and
the covariance S of the weights of inducing variables minimise, by Adam on batches,

    paper: n / B Σ [(y - m)² + r] / (2 σ²) + W²
    code:  Σ [(y - m)² + r] / (2 σ²) / B + W

with the estimator (62) of the squared distance W² on the batch. Kernel and noise are
those of the library's evidence, root-n random inducing points, and one factor of the
variance from a ninth of the rows. Prints the held-out log density beside that of
`GWIRegressor`. Takes about half a minute.
"""

import warnings

import numpy as np
from scipy.stats import norm
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgpx import GWIRegressor
from skgpx._numerics.adam import adam_step
from skgpx._numerics.linalg import solve_lower_transpose
from skgpx._numerics.perceptron import Perceptron
from skgpx._numerics.regression import precision_root
from skgpx._numerics.variance_scale import fit_scale
from skgpx.bases import Nystroem
from skgpx.metrics import gaussian_wasserstein_distance

N_STEPS, BATCH, RATE, LEAST_NOISE = 3000, 100, 1e-2, 1e-3


def distance(basis, X, features, root):
    """Equation (62) of a batch, and its derivative in the root of S."""
    residual = basis.residual_covariance(X, features)
    half, zero = features @ root, np.zeros(len(X))
    prior = residual + features @ features.T
    given = zero, residual + half @ half.T, zero, prior
    found, slopes = gaussian_wasserstein_distance(*given, return_gradient=True)
    slope = 2.0 * features.T @ (slopes.first_covariance @ half)
    return found**2 / len(X), slope / len(X)


def train(X, y, basis, noise, objective, rng):
    """Network and root of S after the steps of Adam."""
    network = Perceptron((X.shape[1], 10, 10, 1))
    theta, n = network.start(rng), len(y)
    Phi = basis(X)
    L = precision_root(Phi.T @ Phi, noise)
    root = solve_lower_transpose(L, np.eye(len(L)))
    moments = [np.zeros_like(p) for p in (theta, theta, root, root)]
    for step in range(N_STEPS):
        rows = rng.permutation(n)[:BATCH]
        Xb, F, B = X[rows], Phi[rows], len(rows)
        m, pullback = network.with_pullback(theta, Xb)
        squared, slope = distance(basis, Xb, F, root)
        squared += float(np.mean(m**2))
        gap = 2.0 * m / B
        if objective == "code":
            D = np.sqrt(max(squared, 1e-12))
            slope, gap = slope / (2.0 * D), gap / (2.0 * D)
        # weight of the likelihood of a row
        weight = (n / B if objective == "paper" else 1.0 / B) / (2.0 * noise)
        gradient = pullback(2.0 * weight * (m - y[rows, np.newaxis]) + gap)[0]
        slope = slope + 2.0 * weight * F.T @ (F @ root)
        adam_step(theta, gradient, *moments[:2], step + 1, RATE)
        adam_step(root, np.ascontiguousarray(slope), *moments[2:], step + 1, RATE)
    return lambda X_new: network(theta, X_new)[:, 0], root


def variance_of(basis, root, X):
    """Variance r of the process."""
    features = basis(X)
    explained = np.sum((features @ root) ** 2, axis=1)
    return explained + basis.residual_variance(X, features)


def log_density(y, mean, variance):
    """Mean log density of normal predictions."""
    return float(np.mean(norm.logpdf(y, mean, np.sqrt(variance))))


def main():
    """Train both objectives and the default on one split."""
    rng = np.random.default_rng(0)
    X, y = make_friedman1(900, n_features=8, noise=1.0, random_state=0)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    train_rows, held_out, test = np.split(rng.permutation(900), [400, 450])
    kernel = 1.0 * RBF(np.full(8, 5.0)) + WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prior = GaussianProcessRegressor(kernel).fit(X[train_rows], y[train_rows])
    kernel, noise = prior.kernel_.k1, max(prior.kernel_.k2.noise_level, LEAST_NOISE)
    Z = X[rng.choice(train_rows, 20, replace=False)]
    basis = Nystroem.from_kernel(kernel, Z)
    for objective in ("paper", "code"):
        how = basis, noise, objective, np.random.default_rng(1)
        mean, root = train(X[train_rows], y[train_rows], *how)
        v = variance_of(basis, root, X[held_out]) + noise
        T = fit_scale((y[held_out] - mean(X[held_out])) ** 2, v)
        v = T * (variance_of(basis, root, X[test]) + noise)
        found = log_density(y[test], mean(X[test]), v)
        print(f"objective of the {objective:6} log density {found:.3f}, T {T:.2f}")
    both = np.concatenate([train_rows, held_out])
    for mean in ("net", "auto"):
        model = GWIRegressor(mean, random_state=0).fit(X[both], y[both])
        predicted, std = model.predict(X[test], return_std=True)
        found = log_density(y[test], predicted, std**2)
        print(f'GWIRegressor("{mean}"){"":3} log density {found:.3f}')


if __name__ == "__main__":
    main()
