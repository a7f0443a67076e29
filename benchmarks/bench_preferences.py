"""Utilities learned from comparisons of items, beside BoTorch's PairwiseGP.

    python -m benchmarks.bench_preferences [--seeds 5] [--comparisons 500]

Sixty items have the utility 4 sin 3a - 6 (b - 0.4)² + 2 a c, and a fourth column does
not matter; pairs are drawn at random, and the first item is preferred with
the logistic probability of the difference, or the probit one (`--noise`). Kendall's tau
is that between the utilities of the 60 items and of 500 new ones and their posterior
means, the log loss that of 2000 new answers about pairs of the items. "Truth" is the
log loss of the probabilities that the answers were drawn with.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import kendalltau
from threadpoolctl import threadpool_limits

from benchmarks.report import progress, report
from skgpx import PLSClassifier

N_ITEMS = 60
N_NEW = 500
N_ANSWERS = 2000
NOISES: dict[str, Callable[[Any], Any]] = {
    "logistic": expit,
    # as steep as the logistic function
    "probit": lambda difference: ndtr(difference / 1.702),
}


def utility(X: Any) -> Any:
    """Of three of four columns."""
    bend = 4.0 * np.sin(3.0 * X[:, 0]) - 6.0 * (X[:, 1] - 0.4) ** 2
    return bend + 2.0 * X[:, 0] * X[:, 2]


def comparisons(rng: Any, X: Any, n: int, noise: str) -> tuple[Any, Any, Any]:
    """Pairs of rows (n, 2), whether the first is preferred, and its probability."""
    pairs = np.array([rng.choice(len(X), 2, replace=False) for _ in range(n)])
    f = utility(X)
    probability = NOISES[noise](f[pairs[:, 0]] - f[pairs[:, 1]])
    return pairs, rng.random(n) < probability, probability


def ours(X: Any, pairs: Any, answers: Any) -> tuple[Any, Any]:
    """Utilities of rows, and probabilities of pairs of rows."""
    first, second = X[pairs[:, 0]], X[pairs[:, 1]]
    model = PLSClassifier(random_state=0).fit(first, answers, against=second)

    def probabilities(A: Any, B: Any) -> Any:
        return model.predict_proba(A, against=B)[:, 1]

    return model.decision_function, probabilities


def pairwise(X: Any, pairs: Any, answers: Any, is_logistic: bool) -> tuple[Any, Any]:
    """BoTorch's model, with its Laplace evidence."""
    from benchmarks.peers.preferences import fit

    winners = np.where(answers[:, np.newaxis], pairs, pairs[:, ::-1])
    return fit(X, winners, is_logistic)


METHODS = {
    "PLSClassifier": ours,
    "PairwiseGP": partial(pairwise, is_logistic=False),
    "PairwiseGP, logit": partial(pairwise, is_logistic=True),
}


def log_loss(answers: Any, probability: Any) -> float:
    """Mean of minus the log probability of answers."""
    chosen = np.where(answers, probability, 1.0 - probability)
    return float(-np.mean(np.log(np.clip(chosen, 1e-12, 1.0))))


def measure(method: str, seed: int, n: int, noise: str) -> dict[str, Any]:
    """Figures of a fit."""
    rng = np.random.default_rng(seed)
    X, X_new = rng.uniform(size=(N_ITEMS, 4)), rng.uniform(size=(N_NEW, 4))
    pairs, answers, _ = comparisons(rng, X, n, noise)
    asked, held_out, truth = comparisons(rng, X, N_ANSWERS, noise)
    start = time.process_time()
    utilities, probabilities = METHODS[method](X, pairs, answers)
    fitted = time.process_time()
    predicted = probabilities(X[asked[:, 0]], X[asked[:, 1]])
    return {
        "noise": noise,
        "method": method,
        "seed": seed,
        "tau": kendalltau(utility(X), np.ravel(utilities(X))).statistic,
        "tau, new": kendalltau(utility(X_new), np.ravel(utilities(X_new))).statistic,
        "log loss": log_loss(held_out, predicted),
        "truth": log_loss(held_out, truth),
        "fit CPU s": fitted - start,
        "predict CPU s": time.process_time() - fitted,
    }


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--comparisons", type=int, default=500)
    parser.add_argument("--noise", nargs="+", default=list(NOISES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for method in options.methods:
            # kernels are compiled before
            measure(method, 100, 50, "logistic")
        for noise in options.noise:
            for seed in range(options.seeds):
                for method in options.methods:
                    row = measure(method, seed, options.comparisons, noise)
                    rows.append(row)
                    progress(row)
    table = []
    for noise in options.noise:
        for method in options.methods:
            chosen = [r for r in rows if (r["noise"], r["method"]) == (noise, method)]
            figures = {
                key: float(np.mean([r[key] for r in chosen]))
                for key in list(rows[0])[3:]
            }
            table.append({"noise": noise, "method": method, **figures})
    report("preferences", table, {"seeds": options.seeds, "runs": rows})


if __name__ == "__main__":
    main()
