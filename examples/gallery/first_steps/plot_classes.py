"""
Classify, with base rates far from the data
===========================================

Far from the data, only the frequencies of the classes are known. The predictions of
:class:`~skgpx.PLSClassifier` return to them. Those of a logistic regression become more
certain with the distance, and those of a Gaussian process with mean zero return to one
half, however rare a class is.
"""

# %%
# Data
# ----
# One case in six is positive, and the probability grows from left to right.
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression

from skgpx import PLSClassifier

rng = np.random.default_rng(2)
x = rng.uniform(-3.0, 3.0, 240)
y = rng.random(240) < expit(1.8 * x - 3.5)
X, grid = x[:, np.newaxis], np.linspace(-15.0, 15.0, 400)[:, np.newaxis]
print(f"share of positives: {y.mean():.2f}")

# %%
# Three classifiers
# -----------------
pls = PLSClassifier(random_state=0).fit(X, y)
models = {
    "PLSClassifier": (pls, "C0-"),
    "GaussianProcessClassifier": (
        GaussianProcessClassifier(1.0 * RBF(), random_state=0).fit(X, y),
        "C1--",
    ),
    "LogisticRegression": (LogisticRegression().fit(X, y), "C2-."),
}

# %%
# Far away, and near
# ------------------
# On the right, draws of the latent function show how uncertain the probability itself
# is. The ticks are the data.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for name, (model, style) in models.items():
    left.plot(grid, model.predict_proba(grid)[:, 1], style, label=name)
left.axhline(y.mean(), color="0.5", lw=0.8, ls=":", label="share of positives")
left.axvspan(x.min(), x.max(), color="0.93", zorder=0)
left.set(
    title="three classifiers",
    xlabel="x (data in the grey strip)",
    ylabel="probability",
    ylim=(-0.02, 1.02),
)
left.legend(fontsize=8, loc="upper left")

near = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
draws = expit(pls.sample_functions(40, random_state=0)(near))
right.plot(near, draws, "C0", lw=0.5, alpha=0.5)
right.plot(near, expit(1.8 * near - 3.5), "k:", lw=1.5, label="truth")
right.plot(x, np.where(y, 1.05, -0.05), "k|", ms=6.0)
right.set(xlabel="x", title="PLSClassifier, forty draws")
right.legend(loc="center left")
plt.show()
