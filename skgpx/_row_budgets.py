"""How many rows each step of a fit reads at most, and why so many."""

from __future__ import annotations

# Rows, or pairs of a row and a function, evaluated at a time: they bound the memory,
# and are fixed, so that sums do not depend on the number of workers.
CHUNK_ROWS = 4096

# ---- Search for the kernel, normal noise: the exact evidence, O(n³) an evaluation ----

# Rows that compare candidate kernels: the evidence of so many is compiled, and takes
# about three milliseconds, of which a hundred or more are needed.
SCREENING_ROWS = 250
# The same under likelihoods of few rows that are not Gaussian: a bound takes some eight
# evaluations.
SCREENING_BOUND_ROWS = 100
# Rows that compare trained candidates, and find trends and seasons: an evaluation takes
# fifteen milliseconds. Where rows abound they stand for what nearest rows do not see.
SCATTERED_ROWS = 500
# Rows that train the best candidate: an evaluation takes about a fifth of a second.
SEARCHED_ROWS = 1500
# From so many rows on, neighbourhoods from all over the data train the kernel: three
# times the rows of the search.
ABUNDANT_ROWS = 4500

# Seconds of one core for the training of finalists, evaluations that one takes, and
# how many there are: one for each family, and two of more rows.
TRAINING_SECONDS = 1.0
TRAINING_EVALUATIONS = 12
FEWEST_FINALISTS = 2
MOST_FINALISTS = 4


def evaluation_seconds(n_rows: int) -> float:
    """Seconds of one core for the exact evidence of so many rows and its gradient.

    Factor and inverse of a matrix, ``n³`` operations at 18 a nanosecond, and passes
    over its elements: 2, 12, 75 and 230 ms for 250, 500, 1000 and 1500 rows.
    """
    return 1e-4 + 2e-8 * n_rows**2 + 5.5e-11 * n_rows**3


def affordable_finalists(n_rows: int) -> int:
    """Candidates that are trained on so many rows."""
    seconds = TRAINING_EVALUATIONS * evaluation_seconds(n_rows)
    number = int(TRAINING_SECONDS / seconds)
    return min(max(number, FEWEST_FINALISTS), MOST_FINALISTS)


# The same for draws from the posterior of the hyperparameters, and once more for their
# densities: as many states as are affordable are averaged, four of 600 rows,
# and the modes of more.
AVERAGING_SECONDS = 0.35
# Rows up to which a population goes from the priors to the posterior, thousands of
# evaluations; and under likelihoods that are not Gaussian.
ANNEALED_ROWS = 150
ANNEALED_BOUND_ROWS = 75
# Rows up to which hyperparameters are averaged under likelihoods of one function that
# are not Gaussian: a bound takes some eight evaluations.
AVERAGED_ROWS = 300
# The same of two classes by default, divided by the number of contrasts between more
# classes: every state has chains of its own, five seconds in all.
AVERAGED_CLASS_ROWS = 200

# ---- Series, rows of one column: the exact evidence, O(n) an evaluation --------------

# Rows of one column from which on filter and smoother take the place of points.
FEWEST_OF_SERIES = 300

# Stretches of abundant rows that compare candidates, and rows of each.
STRETCHES = 8
STRETCH_ROWS = 500
# Rows that train the best one, of two states: an evaluation takes twenty milliseconds.
# Of more states there are fewer of them.
SERIES_ROWS = 20_000
FEWEST_SERIES_ROWS = 2000

# ---- The same of many rows: densities of neighbourhoods given their predecessors -----

# Neighbourhoods that lead finalists of fewer rows to short lengthscales: 25 miss them.
LEADING_NEIGHBORHOODS = 50
# Neighbourhoods that compare candidates, and that train the best one.
COMPARED_NEIGHBORHOODS = 400
TRAINED_NEIGHBORHOODS = 4000
# Rows of a neighbourhood, and rows before it that its density is conditioned on.
NEIGHBORHOOD_ROWS = 10
PREDECESSOR_ROWS = 40

# Rows that have working responses, of one or two functions: a small linear system for
# each row and function, in every pass. More functions have fewer rows.
RESPONSE_ROWS = 40_000
# Latent values of all classes for which nearest rows are taken unasked: rows times
# classes, some six minutes of one core.
CLASS_VALUES = 300_000
# Rows that train the kernel of a scale that varies: each says little of it, whether its
# neighbours are near or not so near.
SCALE_ROWS = 10_000
# Rows whose density given their nearest others chooses the scales of a likelihood.
SCORED_ROWS = 4000

# ---- Inducing points -----------------------------------------------------------------

# Rows of the collapsed bound, and the most of Laplace's evidence: O(n m²).
SPARSE_ROWS = 2000
# The fewest rows of Laplace's evidence: fewer do not tell lengthscales apart.
FEWEST_LAPLACE_ROWS = 300
# Rows for which inducing points are counted, by Laplace's evidence without a gradient.
COUNTING_ROWS = 1500
# Rows from which the noise of each of several targets is estimated: one pass, O(n m²).
NOISE_ROWS = 12_000
# Rows at which inducing points and nearest rows are compared.
COMPARED_ROWS = 200
# Rows that choose a noise variance, each given all others, or that are held out to
# choose a family, and the fewest that can.
HELD_OUT_ROWS = 1000
FEWEST_HELD_OUT_ROWS = 200

# ---- Checks of a fit -----------------------------------------------------------------

# Residuals that are checked in a model of inducing points: O(n m²).
CHECKED_ROWS = 4000
# Residuals that are checked in a model of many Fourier functions, O(n m²); rows that
# give the standard deviation of a new observation; rows of the covariance matrix that
# is factored to compare y with its logarithm, O(n³).
THINNED_ROWS = 1000

# ---- Rows of dask, which stay where they are -----------------------------------------

# Rows that the client reads, for kernel, noise and inducing points: as many as a fit in
# memory takes in a minute.
SAMPLED_ROWS = 200_000
# Rows of a cell, at most: with those of its halo, a few times as many, and their
# features it takes some hundred megabytes.
CELL_ROWS = 100_000
# The first rows of the order, that every cell has: early rows have far predecessors.
FIRST_ROWS = 4000
