"""
Learn the direction in which a function varies
==============================================

The noise of an airfoil has a peak that depends on frequency, thickness and speed only
through one number, the Strouhal number: the function varies in one direction of the
space of logarithms. A kernel with one lengthscale for each column cannot represent
this. :class:`~skgpx.SteinRFFRegressor` starts from the frequencies of such a kernel and
moves them by the evidence of the data until they align with that direction.
"""

# %%
# Data
# ----
# The data are synthetic and resemble the airfoil self-noise data: y is the level in dB,
# and the columns are frequency, angle of attack, chord, speed and thickness of the
# boundary layer, which follows from angle and chord.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgpx import SteinRFFRegressor

rng = np.random.default_rng(0)
n = 800
log_frequency = rng.uniform(np.log(200.0), np.log(20000.0), n)
angle = rng.choice([0.0, 2.0, 4.0, 7.0, 11.0, 15.0], n)
log_chord = np.log(rng.choice([0.025, 0.05, 0.1, 0.15, 0.23, 0.3], n))
log_speed = np.log(rng.choice([32.0, 40.0, 55.0, 71.0], n))
log_thickness = np.log(0.01) + log_chord + 0.12 * angle + 0.3 * rng.standard_normal(n)
log_strouhal = log_frequency + log_thickness - log_speed
from_peak = np.abs(log_strouhal - np.log(0.1)) / np.log(10.0)
y = 125.0 + 20.0 * (log_speed - 4.0) + 3.0 * log_thickness
y += -20.0 * from_peak**1.5 + 4.0 * np.sin(4.0 * log_strouhal)
y += rng.standard_normal(n)
X = np.column_stack((log_frequency, angle, log_chord, log_speed, log_thickness))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

# %%
# Frequencies as they start, and learned
# --------------------------------------
settings = {"n_frequencies": 40, "n_components": 3, "random_state": 0}
models = {
    "as they start": SteinRFFRegressor(max_iter=0, **settings).fit(X_train, y_train),
    "learned": SteinRFFRegressor(**settings).fit(X_train, y_train),
}

# %%
# Frequencies of two columns
# --------------------------
# The figures show the frequencies of log frequency and log thickness. The size of a
# point is the share of its wave in the function; the dashed line is the direction of
# the Strouhal number.
figure, axes = plt.subplots(
    1, 2, figsize=(9.0, 4.2), sharex=True, sharey=True, layout="constrained"
)
direction = scaler.scale_[0], scaler.scale_[4]
for axis, (name, model) in zip(axes, models.items(), strict=True):
    omega = model.frequencies_.reshape(-1, 5)
    size = 60.0 * np.sqrt(model.spectrum_.ravel() / model.spectrum_.max())
    for sign in (-1.0, 1.0):
        axis.scatter(*(sign * omega[:, [0, 4]].T), s=size, alpha=0.5, color="C0")
    axis.axline((0.0, 0.0), direction, color="k", ls="--", lw=0.8)
    mean, std = model.predict(X_test, return_std=True)
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    inside = np.mean(np.abs(mean - y_test) < 1.96 * std)
    axis.set_title(
        f"frequencies {name}: RMSE {error:.2f} dB\n95 % intervals hold {inside:.0%}"
    )
    axis.set(xlabel="radians per std of log frequency", xlim=(-8.0, 8.0))
axes[0].set_ylabel("radians per std of log thickness")
plt.show()
