"""
Optimise under a constraint, and two objectives at once
=======================================================

An experiment has a value and a second quantity that must not be positive. Both have a
Gaussian process, and a trial is proposed where an improvement is large and probably
feasible. With two objectives there is no single best trial but a front, and a trial is
proposed where the volume that the front dominates is expected to grow most.
"""

# %%
# A constraint
# ------------
# The value is small in several places; most of the square is not feasible.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from skgpx import DecoupledSampler
from skgpx.thompson import ThompsonSampler


def value(X):
    a, b = X.T
    return np.cos(2.0 * a) * np.cos(b) + np.sin(a)


def violation(X):
    a, b = X.T
    return np.sin(a) * np.sin(b) + 0.7


optimizer = ThompsonSampler([(0.0, 6.0)] * 2, n_mesh=2000, random_state=0)
for _ in range(10):
    X = optimizer.ask(3)
    optimizer.tell(X, value(X), constraints=violation(X))
print(optimizer.report())

# %%
# A model of the violations says where the edge of the feasible region is, and how well
# it is known.
axis = np.linspace(0.0, 6.0, 60)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
model = DecoupledSampler(random_state=0).fit(optimizer.X_, optimizer.constraints_[:, 0])
mean, std = model.predict(grid, return_std=True)
probability = norm.cdf(-mean / std).reshape(60, 60)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
shades = left.contourf(axis, axis, probability, levels=11, cmap="Greens")
figure.colorbar(shades, label="probability that a trial is feasible")
exact = violation(grid).reshape(60, 60)
left.contour(axis, axis, exact, levels=[0.0], colors="black", linewidths=1.0)
is_feasible = optimizer.constraints_[:, 0] <= 0.0
for rows, marker in ((is_feasible, "o"), (~is_feasible, "x")):
    left.scatter(*optimizer.X_[rows].T, marker=marker, color="tab:orange")
left.scatter(*optimizer.best_x_, marker="*", s=200, color="tab:red")
left.set(title="edge (black), trials, best feasible trial", xlabel="a", ylabel="b")

# %%
# Two objectives
# --------------
# Cost and error of a process with three settings, where less of one is more of the
# other.


def cost_and_error(X):
    a, b, c = X.T
    waste = 1.0 + 2.0 * (b - 0.3) ** 2 + 2.0 * (c - 0.7) ** 2
    return np.column_stack((waste * (0.2 + a), waste * (1.2 - np.sqrt(a))))


fronts = ThompsonSampler([(0.0, 1.0)] * 3, n_mesh=2000, random_state=0)
X = fronts.ask(8)
fronts.tell(X, cost_and_error(X))
for _ in range(8):
    X = fronts.ask(2)
    fronts.tell(X, cost_and_error(X))

# %%
# Functions drawn from the posteriors of both objectives show how well the front is
# known: each draw has a front of its own.
points = np.random.default_rng(0).random((3000, 3))
models = [DecoupledSampler(random_state=0).fit(fronts.X_, y) for y in fronts.y_.T]
draws = [model.sample_functions(20, random_state=1)(points) for model in models]
for cost, error in zip(*(draw.T for draw in draws), strict=True):
    order = np.argsort(cost)
    smallest = np.minimum.accumulate(error[order])
    is_on_front = error[order] <= smallest
    right.step(
        cost[order][is_on_front],
        error[order][is_on_front],
        where="post",
        color="tab:green",
        alpha=0.2,
    )
right.scatter(*fronts.y_.T, color="tab:gray", label="trials")
right.scatter(*fronts.pareto_front_.T, color="tab:red", label="the front")
right.set(title="fronts of draws (green)", xlabel="cost", ylabel="error")
right.set(xlim=(0.1, 1.6), ylim=(0.1, 1.6))
right.legend()
plt.show()

# %%
# The volume between the front and a point that is just not good enough:
print(round(fronts.hypervolume([1.6, 1.6]), 3))
