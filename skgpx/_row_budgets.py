"""How many rows each step of a fit reads at most, and why so many."""

from __future__ import annotations

# ---- Search for the kernel, normal noise: the exact evidence, O(n³) an evaluation ----

# Rows that compare candidate kernels: an evaluation takes about ten milliseconds, and a
# hundred or more are needed.
SCREENING_ROWS = 500
# Rows that find the column in which a search starts at a short lengthscale: one
# evaluation for each of up to a hundred columns, without a gradient.
SHORT_COLUMN_ROWS = 300
# Rows that train the best candidate: an evaluation takes about a fifth of a second.
SEARCHED_ROWS = 1500
# From so many rows on, neighbourhoods from all over the data train the kernel, and
# held-out rows choose the noise: three times the rows of the search.
ABUNDANT_ROWS = 4500

# Rows up to which hyperparameters are averaged: some hundreds of evaluations, of the
# exact evidence of all of them.
AVERAGED_ROWS = 300
# The same of two classes by default, divided by the number of contrasts between more
# classes: every state has chains of its own, five seconds in all.
AVERAGED_CLASS_ROWS = 200

# ---- The same of many rows: densities of neighbourhoods given their predecessors -----

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
# Held-out rows that choose a noise variance or a family, and the fewest that can.
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
