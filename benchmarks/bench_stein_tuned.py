"""Learned frequencies with one setting a data set, chosen by cross-validation.

    python -m benchmarks.bench_stein_tuned --data FOLDER [--sets airfoil ...]
        [--seeds 1 2 3] [--jobs 16]

Choice: three-fold cross-validation on the training rows of one split, the first
seed's. All alternatives that differ from the defaults in one parameter are tried; those
that lower the RMSE (geometric mean of the ratios over the folds) by more than a
hundredth are added one by one, the best first, and of these sums the setting is the
one that is best on other folds, two times three, and with other first frequencies.
Test: defaults and setting on the splits of all seeds, whole fits. The test rows of the
first seed had no part in the choice; of those of other splits most were among the rows
it was made with.

The kernel of a fold is learned once for all alternatives that have the same.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import KFold

from benchmarks.bench_stein_quality import SETS, Split, compile_all, scores, split
from benchmarks.data import add_data_argument
from benchmarks.jobs import each
from benchmarks.report import progress, report
from skgpx import SteinRFFRegressor
from skgpx._stein._prior import Prior, learn_prior
from skgpx._validation import canonical_rows

# Folds in which the rows are divided, and numbers of those of single changes and of
# sums: three to a division.
N_FOLDS = 3
SINGLE, SUMS = range(3), range(3, 9)
# Ratio of errors from which an alternative is a gain.
GAIN = 0.99
# Of a parameter the values beside the default; "kernel" and "noise" (variance of the
# noise over that of y) stand for arguments that depend on the rows.
ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "kernel": ("RBF", "Matern 3/2", "Matern 5/2"),
    "noise": (0.001, 0.01, 0.05),
    "n_frequencies": (100, 200),
    "n_components": (10, 20),
    "learning_rate": (0.05, 0.1, 0.4),
    "spectral_prior": (1.0,),
    "repulsion": (0.0,),
    "coupling": (False,),
    "learned_scales": ("length_scales",),
    "n_hidden": ((32, 32, 32),),
}
# Largest R² M n of a setting: a fit of all rows then takes some two minutes.
LARGEST = 3.5e8
Setting = dict[str, Any]


def base(name: str) -> Setting:
    """Numbers of the paper; the rest by default."""
    return {"n_components": SETS[name][2], "n_frequencies": SETS[name][1]}


def estimator(
    setting: Setting, y: np.ndarray, d: int, seed: int = 0
) -> SteinRFFRegressor:
    """Estimator of a setting, for rows with such targets and d columns."""
    given = {k: v for k, v in setting.items() if k not in ("kernel", "noise")}
    if "noise" in setting:
        given["noise_variance"] = setting["noise"] * float(np.var(y))
    lengths = np.full(d, np.sqrt(d))
    match setting.get("kernel"):
        case "RBF":
            given["kernel"] = ConstantKernel(1.0) * RBF(lengths)
        case "Matern 3/2":
            given["kernel"] = ConstantKernel(1.0) * Matern(lengths, nu=1.5)
        case "Matern 5/2":
            given["kernel"] = ConstantKernel(1.0) * Matern(lengths, nu=2.5)
    return SteinRFFRegressor(random_state=seed, **given)


def prior_key(setting: Setting) -> tuple[Any, ...]:
    """What the learned kernel depends on."""
    return setting.get("kernel"), setting.get("noise")


def fold(data: Split, number: int) -> Split:
    """Training rows of a split, part of them as test rows."""
    X, y = data[:2]
    division, part = divmod(number, N_FOLDS)
    folds = KFold(N_FOLDS, shuffle=True, random_state=division).split(X)
    train, test = list(folds)[part]
    return X[train], y[train], X[test], y[test]


def learned(data: Split, setting: Setting) -> Prior:
    """Kernel and noise of the standardised targets, as in a fit."""
    X, y = data[:2]
    rows = canonical_rows(X, (y - y.mean()) / y.std(), np.ones(len(y)))
    kernel = estimator(setting, y, X.shape[1]).kernel
    noise = setting.get("noise")
    return learn_prior(rows, kernel, "evidence", noise, np.random.default_rng(0))


def find_prior(key: tuple[str, int, tuple], data: Split, setting: Setting) -> Any:
    """A fold's learned kernel, and its processor seconds."""
    start = time.process_time()
    prior = learned(fold(data, key[1]), setting)
    return key, prior, time.process_time() - start


def try_setting(
    key: tuple[str, int, int], data: Split, setting: Setting, prior: Prior
) -> Any:
    """RMSE of a setting on a fold, and processor seconds."""
    start = time.process_time()
    X, y, X_test, y_test = fold(data, key[1])
    model = estimator(setting, y, X.shape[1], key[1] // N_FOLDS)
    noise = None if "noise" in setting else WhiteKernel(prior.noise_variance, "fixed")
    kernel = prior.kernel if noise is None else prior.kernel + noise
    model.set_params(kernel=kernel, optimizer=None, refit=False).fit(X, y)
    error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    seconds = time.process_time() - start
    row = {"set": key[0], "fold": key[1], "setting": str(setting), "RMSE": error}
    progress(row | {"CPU seconds": seconds})
    return key, error, seconds


class Search:
    """Errors of settings on the folds of each set."""

    def __init__(self, sets: list[str], folder: str | None, seed: int, jobs: int):
        self.data = {name: split(name, folder, seed) for name in sets}
        self._jobs = jobs
        self._priors: dict[tuple[Any, ...], Prior] = {}
        self.cpu_seconds = 0.0

    def ratios(
        self, wanted: dict[str, list[Setting]], folds: range
    ) -> dict[str, list[float]]:
        """Mean errors of the settings of each set over that of its first one."""
        self._find_priors(wanted, folds)
        tasks = [
            ((name, number, k), self.data[name], s, self._prior(name, number, s))
            for name, settings in wanted.items()
            for k, s in enumerate(settings)
            for number in folds
        ]
        tasks.sort(key=lambda task: -_cost(task[2]) * len(task[1][1]))
        logs = {name: np.empty((len(s), len(folds))) for name, s in wanted.items()}
        for key, error, seconds in each(try_setting, tasks, self._jobs):
            name, number, k = key
            logs[name][k, folds.index(number)] = np.log(error)
            self.cpu_seconds += seconds
        return {
            name: np.exp((some - some[0]).mean(axis=1)).tolist()
            for name, some in logs.items()
        }

    def _prior(self, name: str, number: int, setting: Setting) -> Prior:
        return self._priors[name, number, prior_key(setting)]

    def _find_priors(self, wanted: dict[str, list[Setting]], folds: range) -> None:
        missing = {
            (name, number, prior_key(setting)): setting
            for name, settings in wanted.items()
            for setting in settings
            for number in folds
        }
        tasks = [
            (key, self.data[key[0]], setting)
            for key, setting in missing.items()
            if key not in self._priors
        ]
        for key, prior, seconds in each(find_prior, tasks, self._jobs):
            self._priors[key] = prior
            self.cpu_seconds += seconds


def _cost(setting: Setting) -> int:
    """Of a fit, ``R² M``."""
    return setting["n_frequencies"] ** 2 * setting["n_components"]


def changes(name: str, n: int) -> list[Setting]:
    """All changes of one parameter that n rows can afford."""
    first = base(name)
    found = [{key: v} for key, values in ALTERNATIVES.items() for v in values]
    return [
        change
        for change in found
        if first | change != first and _cost(first | change) * n < LARGEST
    ]


def choose(search: Search) -> tuple[dict[str, Setting], list[dict[str, Any]]]:
    """Setting of each set, and all errors of the folds as rows."""
    sizes = {name: len(data[1]) for name, data in search.data.items()}
    single = {
        name: [base(name)] + [base(name) | change for change in changes(name, n)]
        for name, n in sizes.items()
    }
    first = search.ratios(single, SINGLE)
    sums = {name: _sums(name, n, first[name][1:]) for name, n in sizes.items()}
    second = search.ratios(sums, SUMS)
    rows = _rows(single, first, "one change") + _rows(sums, second, "sum")
    return {name: sums[name][int(np.argmin(second[name]))] for name in sizes}, rows


def _sums(name: str, n: int, ratios: list[float]) -> list[Setting]:
    """Defaults, then the gains added one by one; the best value of a parameter."""
    sums, taken = [base(name)], set()
    for k in np.argsort(ratios, kind="stable"):
        (key,) = change = changes(name, n)[k]
        longer = sums[-1] | change
        if ratios[k] < GAIN and key not in taken and _cost(longer) * n < LARGEST:
            taken.add(key)
            sums.append(longer)
    return sums


def _rows(
    wanted: dict[str, list[Setting]], ratios: dict[str, list[float]], what: str
) -> list[dict[str, Any]]:
    return [
        {"set": name, "stage": what, "setting": str(setting), "ratio": ratio}
        for name, settings in wanted.items()
        for setting, ratio in zip(settings, ratios[name], strict=True)
    ]


def test(key: tuple[str, int, str], folder: str | None, setting: Setting) -> Any:
    """Scores of a whole fit on a split."""
    start = time.process_time()
    name, seed, label = key
    data = split(name, folder, seed)
    model = estimator(setting, data[1], data[0].shape[1]).fit(*data[:2])
    row = {"set": name, "seed": seed, "setting": label} | scores(model, data)
    row["CPU seconds"] = time.process_time() - start
    progress(row)
    return row


def tested(
    chosen: dict[str, Setting], folder: str | None, seeds: list[int], jobs: int
) -> list[dict[str, Any]]:
    """Scores of defaults and settings on all splits."""
    tasks = [
        ((name, seed, label), folder, settings)
        for name, setting in chosen.items()
        for seed in seeds
        for label, settings in (("default", base(name)), ("tuned", setting))
    ]
    tasks.sort(key=lambda task: -_cost(task[2]))
    rows = each(test, tasks, jobs)
    return sorted(rows, key=lambda row: (row["set"], row["setting"], row["seed"]))


def means(
    rows: list[dict[str, Any]], chosen: dict[str, Setting]
) -> list[dict[str, Any]]:
    """Averages over the splits."""
    table = []
    for name in chosen:
        for label in ("default", "tuned"):
            same = [r for r in rows if (r["set"], r["setting"]) == (name, label)]
            row = {"set": name, "setting": label}
            for figure in ("RMSE", "NLPD", "coverage", "CPU seconds"):
                row[figure] = float(np.mean([r[figure] for r in same]))
            row["RMSE of the first"] = same[0]["RMSE"]
            row["values"] = str(chosen[name]) if label == "tuned" else ""
            table.append(row)
    return table


def main() -> None:
    """Choose and test."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    compile_all()
    search = Search(options.sets, options.data, options.seeds[0], options.jobs)
    chosen, tried = choose(search)
    settings = {"chosen": chosen, "tried": tried, "CPU seconds": search.cpu_seconds}
    report("stein_tuned_choice", tried, settings)
    rows = tested(chosen, options.data, options.seeds, options.jobs)
    report("stein_tuned", means(rows, chosen), settings | {"each": rows})


if __name__ == "__main__":
    main()
