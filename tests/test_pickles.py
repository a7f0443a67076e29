"""What fitted models hold: classes that a reviewer of a file knows."""

import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LogisticRegression

import skgpx
from skgpx import (
    DecoupledSampler,
    ExactGPRegressor,
    GWIClassifier,
    GWIRegressor,
    PLSClassifier,
    PLSRegressor,
    SpectralVGPRegressor,
    SteinFourierFeatures,
    SteinRFFRegressor,
    TemperedRegressor,
)
from skgpx.bases import Nystroem
from skgpx.likelihoods import RobustMax, StudentT

pytestmark = [
    pytest.mark.filterwarnings("ignore::skgpx.exceptions.FitWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

_rng = np.random.default_rng(0)
X = _rng.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * _rng.normal(size=60)
LABELS = np.where(X[:, 0] > 0.0, "a", "b")
PACKAGES = ("skgpx", "numpy", "scipy", "sklearn")
# parts of the language
BUILTINS = {
    ("_codecs", "encode"),
    ("builtins", "slice"),
    ("builtins", "range"),
    ("collections", "OrderedDict"),
    ("copyreg", "_reconstructor"),
    ("builtins", "object"),
}
FAST = {"random_state": 0}
MODELS = {
    "pls": PLSRegressor(n_inducing=8, **FAST),
    "neighbors": PLSRegressor(n_inducing=8, n_neighbors=5, **FAST),
    "chains": PLSRegressor(
        likelihood=StudentT(), n_inducing=8, n_particles=8, max_iter=4, **FAST
    ),
    "pls classes": PLSClassifier(n_inducing=8, n_particles=8, max_iter=4, **FAST),
    "spectral": SpectralVGPRegressor(),
    "stein": SteinRFFRegressor(
        n_components=2, n_frequencies=10, max_iter=4, hidden_layer_sizes=4, **FAST
    ),
    "features": SteinFourierFeatures(**FAST),
    "exact": ExactGPRegressor(n_draws=4, **FAST),
    "gwi": GWIRegressor("svgp", **FAST),
    "gwi networks": GWIRegressor("net", max_iter=2, **FAST),
    "gwi around": GWIRegressor(BayesianRidge(), **FAST),
    "gwi classes": GWIClassifier("svgp", **FAST),
    "gwi class networks": GWIClassifier("net", max_iter=2, **FAST),
    "gwi classes around": GWIClassifier(
        LogisticRegression(), likelihood=RobustMax(), **FAST
    ),
    "sampler": DecoupledSampler(GaussianProcessRegressor(alpha=0.1), **FAST),
    "default sampler": DecoupledSampler(**FAST),
    "tempered": TemperedRegressor(BayesianRidge(), cv=2),
}


class Recorder(pickle.Unpickler):
    """Notes every global that a pickle imports."""

    def __init__(self, data):
        super().__init__(io.BytesIO(data))
        self.names = set()

    def find_class(self, module, name):
        self.names.add((module, name))
        return super().find_class(module, name)


@pytest.mark.parametrize("name", MODELS)
def test_models_hold_classes_of_these_packages(name):
    recorder = Recorder(
        pickle.dumps(MODELS[name].fit(X, LABELS if "class" in name else Y))
    )
    recorder.load()
    unknown = {
        named
        for named in recorder.names - BUILTINS
        if named[0].split(".")[0] not in PACKAGES
    }
    assert not unknown


def test_averaged_models_have_small_pickles_and_the_same_bits():
    model = PLSRegressor(**FAST).fit(X, Y)
    models = model.posterior_.models
    assert len(models) > 1
    roots = sum(part.basis.root.nbytes + part.weights.root.nbytes for part in models)
    data = pickle.dumps(model)
    assert len(data) < 0.6 * roots
    loaded = pickle.loads(data)
    rows = 2.0 * X + 0.1
    for before, after in zip(
        model.predict(rows, return_std=True),
        loaded.predict(rows, return_std=True),
        strict=True,
    ):
        assert_array_equal(after, before)
    draws = [one.sample_functions(5, random_state=0) for one in (model, loaded)]
    assert_array_equal(draws[1](rows), draws[0](rows))


def test_roots_that_no_kernel_gives_are_pickled():
    basis = Nystroem.from_kernel(RBF(), X[:5])
    for other in (
        replace(basis, root=2.0 * basis.root),
        replace(basis, kernel=RBF(2.0)),
        replace(basis, root=None),
    ):
        loaded = pickle.loads(pickle.dumps(other))
        assert_array_equal(loaded(X), other(X))
        assert_array_equal(loaded.jitter, other.jitter)


def test_every_estimator_is_looked_at():
    public = {getattr(skgpx, name) for name in skgpx.__all__}
    estimators = {one for one in public if hasattr(one, "get_params")}
    assert estimators <= {type(model) for model in MODELS.values()}
