"""The panel: what its table holds, and that it names what got worse."""

import json

import pytest

from benchmarks import panel


@pytest.fixture
def measured(tmp_path, monkeypatch, capsys):
    """Two cells, one seed, in this process; their file and what was printed."""

    def alone(tasks, n_jobs, timeout):
        return ((task, panel.measure(*task)) for task in tasks)

    monkeypatch.setattr(panel, "measured", alone)
    file = tmp_path / "now.json"
    cells = ["5 rows / SpectralVGP", "10 labels / GaussianProcessClassifier"]

    def run(*more):
        panel.main(["--only", *cells, "--seeds", "1", "--output", str(file), *more])
        return file, capsys.readouterr().out

    return run


def test_columns(measured):
    file, printed = measured()
    numbers, *labels = json.loads(file.read_text())["runs"]
    assert {"case", "estimator", "seed", "cpu_seconds", "warnings"} <= set(numbers)
    assert {"rmse", "nlpd", "coverage"} <= set(numbers)
    assert {"nlpd", "accuracy"} <= set(labels[0])
    assert "10 labels" in printed


def test_what_is_worse_is_named(measured, tmp_path):
    file, _ = measured()
    before = json.loads(file.read_text())
    before["runs"][0]["nlpd"] -= 1.0
    before["runs"][0]["warnings"] = before["runs"][0]["warnings"] or ["UserWarning: so"]
    for run in before["runs"]:
        run["cpu_seconds"] = 1e6
    old = tmp_path / "before.json"
    old.write_text(json.dumps(before))
    _, printed = measured("--resume", "--against", str(old))
    said = printed[printed.index("Worse: 1") :].splitlines()
    assert said[3].split()[:4] == ["5", "rows", "SpectralVGPRegressor", "nlpd"]
    assert any(line.split()[:2] == ["SpectralVGPRegressor", "1"] for line in said)


def test_two_standard_errors():
    """Seeds are paired, and small differences are none."""
    old = {s: {"rmse": 1.0 + s, "nlpd": 1.0, "cpu_seconds": 1.0} for s in range(4)}
    new = {s: {"rmse": 1.1 + s, "nlpd": 1.001, "cpu_seconds": 1.1} for s in range(4)}
    (one,) = panel.changes(("", ""), new, old)
    assert one["score"] == "rmse"
    new[0]["rmse"], new[1]["rmse"] = 0.5, 3.0
    assert not list(panel.changes(("", ""), new, old))
    (error,) = panel.changes(("", ""), {0: {"error": "ValueError: no"}}, old)
    assert error["after"] == "ValueError: no"
