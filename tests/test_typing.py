"""What a type checker sees of the public interface."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
USER = """
import numpy as np
import skgpx
from skgpx import DecoupledSampler, PLSClassifier, PLSRegressor, SpectralVGPRegressor

X, y = np.zeros((3, 1)), np.zeros(3)
rows, = PLSRegressor().fit(X, y).predict(X).shape
mean, std = PLSRegressor().fit(X, y, exposure=y).predict(X, return_std=True)
reveal_type(PLSRegressor().fit(X, y))
reveal_type(PLSClassifier().fit(X, y))
reveal_type(SpectralVGPRegressor().fit(X, y).partial_fit(X, y))
reveal_type(DecoupledSampler().fit(X, y))
reveal_type(DecoupledSampler().predict(X))
reveal_type(DecoupledSampler().predict(X, return_std=True))
reveal_type(PLSClassifier().predict_proba(X))
reveal_type(PLSRegressor().predict_dist(X))
reveal_type(skgpx.predict_dist(PLSRegressor(), X).mean())
"""
ARRAY = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]"
PAIR = f"tuple[{ARRAY}, {ARRAY}]"
REVEALED = [
    "skgpx._pls._regressor.PLSRegressor",
    "skgpx._pls._classifier.PLSClassifier",
    "skgpx._spectral_vgp._regressor.SpectralVGPRegressor",
    "skgpx._decoupled._sampler.DecoupledSampler",
    *(ARRAY, PAIR, ARRAY),
    "skgpx._prediction.distribution.PredictiveDistribution",
    ARRAY,
]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Output of mypy on a program of a user of the package."""
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    folder = tmp_path_factory.mktemp("user")
    (folder / "user.py").write_text(USER)
    (folder / "skgpx").symlink_to(ROOT / "skgpx")
    assert (ROOT / "skgpx" / "py.typed").exists()
    # as of an installed package: its types are read, and its body is not reported on
    options = ["--follow-imports=silent", "--ignore-missing-imports", "--config-file="]
    command = [sys.executable, "-m", "mypy", *options, "user.py"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0",
    reason="the stubs of NumPy 1 call the same types by other names",
)
def test_types_of_fit_and_predict(output):
    of_user = [line for line in output if line.startswith("user.py")]
    assert not [line for line in of_user if "error" in line]
    types = [line.split('"')[1] for line in of_user if "Revealed" in line]
    assert [one.replace("builtins.", "") for one in types] == REVEALED
