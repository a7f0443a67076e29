"""The demonstration runs without warnings and writes its tables and its picture."""

import sys

from skgpx import demo


def test_the_demo_prints_its_tables_and_writes_a_picture(monkeypatch, tmp_path, capsys):
    path = tmp_path / "demo.png"
    monkeypatch.setattr(sys, "argv", ["demo", "--figure", str(path)])
    demo.main()
    printed, progress = capsys.readouterr()
    for name in ("GaussianProcessRegressor", "PLSClassifier", "Student-t"):
        assert name in printed
    # the bar is for terminals
    assert "####" not in progress
    assert printed.count("Diabetes data") == 1
    assert path.stat().st_size > 10_000


def test_the_demo_goes_without_matplotlib(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert "no picture" in demo.picture("unwritten.png")
