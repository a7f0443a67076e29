"""Table 1 of Stein random feature regression, and its learned kernels and densities.

Warren, Oliveira and Ramos, "Stein random feature regression", UAI 2024, move the
frequencies of M components by equation (26) (Algorithm 1). Two models are compared:

* `published`, written out with the settings of the authors' notebooks for each set: the
  prior N(0, 9) of the entries of Ω, which is not the distribution of the start,
  N(0, 1); the evidence divided by M; an annealed slope; a weight decay of Ω; steps of
  Adam at one rate; lengthscales that are learned beside by a rate of their own; and a
  noise variance that is given;
* `SteinRFFRegressor()`.

    python -m examples.papers.stein_mixture [--full]

The baselines of the table are: SVGP, `PLSRegressor` with an RBF kernel and R inducing
points, in closed form; SSGP-RBF, one component with fixed frequencies; SSGP, one
component whose frequencies follow their own slopes; SSGP-R*, the same with M^(1/3) as
many frequencies; SSGP-SVGD, one component with repulsion. All but SVGP run by the same
loop, with the noise and the rates of the notebooks.

As in the authors' notebooks a tenth of the rows is the test (a fifth for energy),
columns are scaled to [0, 1] (standardised for wine), the RMSE is in units of y, and
NLPD sums over the rows of the test and refers to standardised targets: for the mixture
it is the negative logarithm of the mean over components of the product over rows, which
the authors' code computes, not the sum of the pointwise mixture, which is the library's
and that of the column of defaults.

The paper takes 1000 steps and ten splits; the short form 250 (400 for single
components, 1000 for energy) and two. Figures 1 (eight components), 4, 6, 8 and 10 are
kernels that the estimator has learned, figures 5, 7, 9 and 11 its predictive densities
of rows of the test.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, qmc
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import train_test_split

from examples.papers.results import Measured, Results, alone, clock, load
from skgpx import PLSRegressor, SteinRFFRegressor
from skgpx._latent import MixtureModel
from skgpx._numerics.svgd import bandwidths, move, stein_force
from skgpx._numerics.wave_evidence import wave_gradient
from skgpx._shell.validation import Rows
from skgpx._stein._wave_mixture import WaveMixture
from skgpx.inspection import LearnedKernelDisplay, MixtureDensityDisplay

Array = np.ndarray
CYCLES, DECAY = 5, 1e-4
MODELS = "SVGP", "SSGP-RBF", "SSGP", "SSGP-R*", "SSGP-SVGD", "M-SRFR"
Printed = tuple[tuple[float, float], ...]


class Setting(NamedTuple):
    """Of one set, from the authors' notebooks."""

    n_frequencies: int
    n_components: int
    noise_variance: float
    repulsion: float
    rate: float
    rate_of_lengths: float
    power: float
    # whether lengthscales start at medians of distances, not at one
    starts_at_medians: bool
    # None for wine: a prior made of the start
    prior_std: float | None = 3.0
    is_standardised: bool = False
    test_share: float = 0.1
    # whether the slope of a frequency is an average over those around it
    is_smoothed: bool = True
    # noise variance and rate of SSGP-RBF, and of SSGP and SSGP-R*
    fixed: tuple[float, float] = (0.1, 0.1)
    own: tuple[float, float] = (0.1, 0.1)
    # of SSGP-SVGD: noise variance, rate, rate of lengthscales, repulsion, power
    stein: tuple[float, float, float, float, float] = (0.1, 0.1, 0.1, 1.0, 1.0)
    # steps of the short form
    n_steps: int = 250


SETTINGS = {
    "airfoil": Setting(
        n_frequencies=100,
        n_components=6,
        noise_variance=0.00909,
        repulsion=0.0,
        rate=0.195,
        rate_of_lengths=0.00267,
        power=0.5,
        starts_at_medians=True,
        fixed=(0.01058, 0.3783),
        own=(0.02065, 0.2148),
        stein=(0.00164, 0.2393, 0.3832, 1.6, 1.0),
    ),
    "concrete": Setting(
        n_frequencies=100,
        n_components=6,
        noise_variance=0.01186,
        repulsion=0.0,
        rate=0.388,
        rate_of_lengths=0.306,
        power=1.0,
        starts_at_medians=False,
        fixed=(0.09557, 0.3674),
        own=(0.08942, 0.01303),
        stein=(0.09606, 0.01821, 0.01329, 2.4, 1.0),
    ),
    "energy_heating": Setting(
        n_frequencies=50,
        n_components=10,
        noise_variance=0.00036,
        repulsion=1.8,
        rate=0.0694,
        rate_of_lengths=0.380,
        power=0.5,
        starts_at_medians=False,
        test_share=0.2,
        n_steps=1000,
        fixed=(0.00211, 0.04026),
        own=(0.00101, 0.05003),
        stein=(0.00079, 0.2474, 0.01295, 2.2, 2.0),
    ),
    "wine": Setting(
        n_frequencies=100,
        n_components=10,
        noise_variance=0.0253,
        repulsion=0.4,
        rate=0.196,
        rate_of_lengths=0.1,
        power=0.5,
        starts_at_medians=True,
        prior_std=None,
        is_standardised=True,
        fixed=(0.08567, 0.00441),
        own=(0.09721, 0.02488),
        stein=(0.00356, 0.1736, 0.2290, 1.8, 0.5),
    ),
}
# Table 1, in the order of MODELS.
RMSE: dict[str, Printed] = {
    "airfoil": (
        (2.36, 0.24),
        (2.90, 0.60),
        (2.41, 0.53),
        (2.54, 1.09),
        (2.50, 0.59),
        (1.88, 0.27),
    ),
    "concrete": (
        (6.35, 0.69),
        (5.74, 0.58),
        (5.03, 0.74),
        (4.88, 0.65),
        (5.51, 0.54),
        (4.13, 0.72),
    ),
    "energy_heating": (
        (2.72, 0.17),
        (0.48, 0.03),
        (0.37, 0.05),
        (0.36, 0.03),
        (0.40, 0.09),
        (0.29, 0.04),
    ),
    "wine": (
        (0.62, 0.04),
        (0.82, 0.08),
        (0.87, 0.04),
        (0.69, 0.06),
        (0.76, 0.06),
        (0.59, 0.04),
    ),
}
NLPD: dict[str, Printed] = {
    "airfoil": (
        (487.0, 203.4),
        (780.5, 457.0),
        (216.0, 159.9),
        (213.4, 369.6),
        (4166.6, 2885.5),
        (454.3, 134.5),
    ),
    "concrete": (
        (272.8, 120.3),
        (36.3, 11.8),
        (23.1, 14.0),
        (20.2, 12.0),
        (29.4, 10.0),
        (113.9, 77.3),
    ),
    "energy_heating": (
        (993.6, 205.3),
        (-249.4, 8.7),
        (-288.0, 23.9),
        (-293.9, 17.0),
        (-261.7, 58.8),
        (-283.7, 38.4),
    ),
    "wine": (
        (2334.9, 457.0),
        (791.1, 160.7),
        (783.9, 82.3),
        (404.0, 74.3),
        (16924.9, 2615.7),
        (1882.5, 205.3),
    ),
}
# Why a value is not reproduced, by set and model, where that was measured.
REASONS = {
    ("energy_heating", "SSGP-RBF"): "two splits are few: the means of ten are 0.492 "
    "and -246, within the printed deviations",
    ("energy_heating", "SSGP-R*"): "two splits are few: the means of ten are 0.388 and "
    "-280, within the printed deviations",
}


class Split(NamedTuple):
    """Scaled inputs and standardised targets, and the unit of these."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    unit: float


def split_rows(X: Array, y: Array, setting: Setting, seed: int) -> Split:
    """Rows of training and test; all rows give the scales, as in the paper."""
    low, range_of = X.min(axis=0), np.ptp(X, axis=0)
    if setting.is_standardised:
        low, range_of = X.mean(axis=0), X.std(axis=0)
    X = (X - low) / np.where(range_of > 0.0, range_of, 1.0)
    unit = float(y.std())
    y = (y - y.mean()) / unit
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=setting.test_share, random_state=seed
    )
    return Split(X, y, X_test, y_test, unit)


# ---- The published model -------------------------------------------------------------


def median_distances(X: Array) -> Array:
    """Medians over pairs of rows of squared distances in each column, one for zero."""
    rows = X[:: max(1, len(X) // 400)]
    medians = np.array(
        [np.median((column[:, np.newaxis] - column) ** 2) for column in rows.T]
    )
    return np.where(medians > 0.0, medians, 1.0)


def published(X: Array, y: Array, setting: Setting, n_steps: int) -> MixtureModel:
    """Posterior of the mixture at the frequencies where the steps end."""
    d = X.shape[1]
    n_components = setting.n_components
    start = [
        qmc.MultivariateNormalQMC(np.zeros(d), engine=qmc.Halton(d, seed=m)).random(
            setting.n_frequencies
        )
        for m in range(n_components)
    ]
    omega = np.ascontiguousarray(start)
    length_scale = median_distances(X) if setting.starts_at_medians else np.ones(d)
    amplitudes = np.full(setting.n_frequencies, setting.n_frequencies**-0.5)
    centre = np.zeros(d)
    variance: float | Array = 1.0
    if setting.prior_std is None:
        # the standard deviation is the variance of the start, as in the authors' code
        centre = omega.mean(axis=(0, 1))
        variance = omega.std(axis=(0, 1)) ** 4
    else:
        variance = setting.prior_std**2
    rows = Rows(X, y, np.ones(len(y)))
    means = np.zeros((2, n_components * setting.n_frequencies, d))
    of_lengths = np.zeros((2, 1, d))
    paces = np.ones(means[0].shape)
    factors = np.ones(d)
    for step in range(n_steps):
        mixture = WaveMixture(
            None, omega, amplitudes, length_scale, setting.noise_variance
        )
        found = [wave_gradient(*rows[:3], waves) for waves in mixture.waves()]
        slopes = np.stack([gradient.frequencies for gradient in found]) / n_components
        # of the mean evidence in the logarithms of the lengthscales, by which
        # frequencies are divided
        pull = -np.sum(slopes * omega, axis=(0, 1)) / length_scale
        slopes = slopes / length_scale - (omega - centre) / variance
        cycle = n_steps / CYCLES
        slopes *= ((step % cycle) / cycle) ** setting.power
        pool, slopes = omega.reshape(-1, d), slopes.reshape(-1, d)
        force = slopes
        if setting.is_smoothed:
            squares = bandwidths(pool, factors)
            force = stein_force(pool, pool, slopes, squares, setting.repulsion)
        omega *= 1.0 - setting.rate * DECAY
        move(pool, force, paces, means, step, setting.rate)
        logarithms = np.log(length_scale)[np.newaxis]
        move(
            logarithms,
            pull[np.newaxis],
            np.ones((1, d)),
            of_lengths,
            step,
            setting.rate_of_lengths,
        )
        length_scale = np.exp(logarithms[0])
    mixture = WaveMixture(None, omega, amplitudes, length_scale, setting.noise_variance)
    return mixture.posterior(mixture.statistics(rows, 1), setting.noise_variance)


def joint_loss(means: Array, stds: Array, y: Array) -> float:
    """Negative log of the mean over components of the density of all rows."""
    joint = norm.logpdf(y, means, stds).sum(axis=1)
    return float(np.log(len(joint)) - logsumexp(joint))


def component_moments(
    models: tuple[Any, ...], noise: float, X: Array
) -> tuple[Array, Array]:
    """Means and standard deviations (M, n) of y under each component."""
    moments = [model.marginals(X).moments() for model in models]
    means = np.stack([mean[:, 0] for mean, _ in moments])
    variances = np.stack([variance[:, 0] for _, variance in moments])
    return means, np.sqrt(variances + noise)


Pair = tuple[float, float]


def scores_of_mixture(model: MixtureModel, noise: float, split: Split) -> Pair:
    """RMSE in units of y, and the joint loss."""
    means, stds = component_moments(model.models, noise, split.X_test)
    error = np.sqrt(np.mean((means.mean(axis=0) - split.y_test) ** 2))
    return float(error) * split.unit, joint_loss(means, stds, split.y_test)


def scores_of_estimator(model: Any, split: Split) -> Pair:
    """The same of an estimator, with the pointwise density of each row."""
    error = np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2))
    loss = -np.sum(model.log_predictive_density(split.X_test, split.y_test))
    return float(error) * split.unit, float(loss)


def baselines(setting: Setting) -> dict[str, Setting]:
    """The four single components of the table."""
    R = setting.n_frequencies
    equal = round(setting.n_components ** (1.0 / 3.0) * R)
    one = setting._replace(n_components=1, prior_std=np.inf, power=0.0, repulsion=0.0)
    noise, rate = setting.fixed
    fixed = one._replace(
        noise_variance=noise, rate=0.0, rate_of_lengths=rate, is_smoothed=False
    )
    noise, rate = setting.own
    own = one._replace(
        noise_variance=noise, rate=rate, rate_of_lengths=rate, is_smoothed=False
    )
    noise, rate, rate_of_lengths, repulsion, power = setting.stein
    stein = one._replace(
        noise_variance=noise,
        rate=rate,
        rate_of_lengths=rate_of_lengths,
        repulsion=repulsion,
        power=power,
    )
    return {
        "SSGP-RBF": fixed,
        "SSGP": own,
        "SSGP-R*": own._replace(n_frequencies=equal),
        "SSGP-SVGD": stein,
    }


def one_split(
    setting: Setting, split: Split, full: bool
) -> tuple[dict[str, Pair], dict[str, float], Any]:
    """Scores and CPU seconds of all models, and the fitted default."""
    found: dict[str, Pair] = {}
    seconds: dict[str, float] = {}
    d = split.X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d)))
    R = setting.n_frequencies
    for name, model in {
        "SVGP": PLSRegressor(kernel, n_inducing=R, n_neighbors=0, random_state=0),
        "default": SteinRFFRegressor(random_state=0),
    }.items():
        with clock() as elapsed:
            model.fit(split.X, split.y)
            seconds[name] = elapsed()
        found[name] = scores_of_estimator(model, split)
    n_steps = 1000 if full else max(400, setting.n_steps)
    for name, single in baselines(setting).items():
        with clock() as elapsed:
            mixture = published(split.X, split.y, single, n_steps)
            seconds[name] = elapsed()
        found[name] = scores_of_mixture(mixture, single.noise_variance, split)
    with clock() as elapsed:
        n_steps = 1000 if full else setting.n_steps
        mixture = published(split.X, split.y, setting, n_steps)
        seconds["M-SRFR"] = elapsed()
    found["M-SRFR"] = scores_of_mixture(mixture, setting.noise_variance, split)
    return found, seconds, model


# ---- Table and figures ---------------------------------------------------------------

FIGURES = {
    "airfoil": ("4", "5"),
    "concrete": ("6", "7"),
    "energy_heating": ("8", "9"),
    "wine": ("10", "11"),
}


def pictures(results: Results, name: str, model: Any, split: Split) -> None:
    """Learned kernels by column, and densities of twelve rows of the test."""
    first, second = FIGURES[name]
    for number, display in (
        (first, LearnedKernelDisplay.from_estimator(model, split.X)),
        (
            second,
            MixtureDensityDisplay.from_estimator(
                model, split.X_test[:12], split.y_test[:12]
            ),
        ),
    ):
        results.keep(f"001_figure_{number}", display.figure_)
        plt.close(display.figure_)
    if name == "airfoil":
        eight = SteinRFFRegressor(n_components=8, random_state=0)
        eight.fit(split.X, split.y)
        display = LearnedKernelDisplay.from_estimator(eight, split.X)
        results.keep("001_figure_1", display.figure_)
        plt.close(display.figure_)


def table_1(results: Results, full: bool) -> None:
    """RMSE and NLPD of the four sets."""
    for name, setting in SETTINGS.items():
        data = load(name)
        shown = name.split("_")[0]
        if data is None:
            for metric, numbers in (("RMSE", RMSE[name]), ("NLPD", NLPD[name])):
                text = ", ".join(f"{mean} ({std})" for mean, std in numbers)
                what = f"{shown}.csv is not there"
                results.missing(f"Table 1, {metric}", shown, text, what)
            continue
        runs = [
            one_split(setting, split_rows(*data, setting, seed), full)
            for seed in range(10 if full else 2)
        ]
        pictures(results, name, runs[0][2], split_rows(*data, setting, 0))
        for i, (metric, numbers) in enumerate(
            (("RMSE", RMSE[name]), ("NLPD", NLPD[name]))
        ):
            default = Measured(tuple(found["default"][i] for found, _, _ in runs))
            for model, (mean, spread) in zip(MODELS, numbers, strict=True):
                results.add(
                    f"Table 1, {metric}",
                    f"{shown}, {model}",
                    mean,
                    spread,
                    published=Measured(tuple(found[model][i] for found, _, _ in runs)),
                    default=default if model == "M-SRFR" else None,
                    digits=2 if metric == "RMSE" else 1,
                    seconds=float(np.mean([spent[model] for _, spent, _ in runs])),
                    reason=REASONS.get((name, model), ""),
                )
        text = ", ".join(
            f"{key} {np.mean([found[key][0] for found, _, _ in runs]):.2f}"
            for key in runs[0][0]
        )
        results.step(f"{shown}: RMSE {text} ({sum(runs[0][1].values()):.0f} s a split)")


def bundled(results: Results, full: bool) -> None:
    """Without the sets of the table: the diabetes patients of scikit-learn."""
    setting = SETTINGS["concrete"]._replace(noise_variance=0.5, n_steps=100)
    split = split_rows(*load_diabetes(return_X_y=True), setting, 0)
    found, seconds, model = one_split(setting, split, full)
    results.measured(
        "Table 1, RMSE",
        "diabetes of scikit-learn, M-SRFR in the setting of concrete, noise 0.5",
        Measured((found["M-SRFR"][0],)),
        Measured((found["default"][0],)),
        seconds=seconds["M-SRFR"],
    )
    pictures(results, "airfoil", model, split)


def run(results: Results, full: bool) -> None:
    """Table 1, figures 1 and 4 to 11."""
    table_1(results, full)
    if all(load(name) is None for name in SETTINGS):
        bundled(results, full)
    results.missing(
        "Figure 3",
        "AUSWAVE, RMSE of eight models",
        "0.098 (deep M-SRFR) to 0.438",
        "the fields of the Australian Bureau of Meteorology are not there",
    )


if __name__ == "__main__":
    alone("001", "stein_mixture", run)
