"""
Refuse images that a classifier is not sure of
==============================================

Probabilities that are averaged over the posterior are less extreme than those of the
best fit, in particular where the model may be wrong. If images without a clearly most
probable class are refused, the errors are mostly among them.
"""

# %%
# Data
# ----
# The digits 3, 5 and 8 look alike. A quarter of their images, of 8 by 8 pixels, are the
# training set.
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split

from skgpx import PLSClassifier

X, y = load_digits(return_X_y=True)
chosen = np.isin(y, (3, 5, 8))
X_train, X_test, y_train, y_test = train_test_split(
    X[chosen] / 16.0, y[chosen], train_size=0.25, random_state=0, stratify=y[chosen]
)

# %%
# Fit
# ---
# Three latent functions are sampled together at forty inducing images.
model = PLSClassifier(1.0 * RBF(2.0), n_inducing=40, random_state=0)
model.fit(X_train, y_train)
proba = model.predict_proba(X_test)
sure = proba.max(axis=1)
right = model.classes_[proba.argmax(axis=1)] == y_test
print(f"{len(y_test)} images, {np.mean(right):.1%} right")

# %%
# Refusing
# --------
# Left: the share of errors among the images that are not refused. Right: the accuracy
# against the probability of the predicted class, with two standard errors. The model
# is underconfident: its accuracy exceeds its probabilities.
order = np.argsort(-sure)
kept = np.arange(1, len(order) + 1)
mistakes = np.cumsum(~right[order]) / kept
figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
axes[0].plot(100.0 * (1.0 - kept / len(order)), 100.0 * mistakes)
axes[0].set(
    xlim=(0.0, 50.0), xlabel="images refused, %", ylabel="errors among the others, %"
)
edges = np.quantile(sure, [0.0, 0.1, 0.2, 0.4, 1.0])
for low, high in pairwise(edges):
    some = (sure >= low) & (sure <= high)
    share = right[some].mean()
    error = 2.0 * np.sqrt(share * (1.0 - share) / some.sum())
    axes[1].errorbar(sure[some].mean(), share, error, fmt="C0o")
axes[1].axline((0.5, 0.5), (1.0, 1.0), color="k", ls=":", lw=0.8)
axes[1].set(xlabel="probability of the predicted class", ylabel="accuracy")

# %%
# The eight images with the least certain prediction
# --------------------------------------------------
# Each title gives the true digit and the probabilities of 3, 5 and 8.
figure, axes = plt.subplots(2, 4, figsize=(9.0, 4.8), layout="constrained")
for axis, i in zip(axes.ravel(), order[::-1], strict=False):
    axis.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    chances = ", ".join(f"{p:.2f}" for p in proba[i])
    axis.set_title(f"a {y_test[i]}: {chances}", fontsize=9)
    axis.set_axis_off()
plt.show()
