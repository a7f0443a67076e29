"""The runner of the papers: table, verdicts, data that are missing, failures."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from examples.papers import __main__ as runner
from examples.papers import decoupled_draws, fetch, pls_tables, results
from examples.papers.results import Measured, Results, judged, verdict_of


@pytest.mark.parametrize(
    ("ours", "better", "verdict"),
    [
        (1.1, "lower", "reproduced"),
        (0.9, "lower", "reproduced"),
        (0.5, "lower", "better"),
        (1.5, "higher", "better"),
        (1.5, "lower", None),
        (0.5, None, None),
        (np.nan, "lower", None),
        (None, "lower", None),
    ],
)
def test_a_value_is_judged_by_the_printed_spread(ours, better, verdict):
    assert judged(1.0, 0.1, ours, better) == verdict


def test_the_default_counts_only_where_the_published_setting_fails():
    assert verdict_of(1.0, 0.1, 1.0, 9.0, "lower", "") == "reproduced"
    assert verdict_of(1.0, 0.1, 9.0, 0.2, "lower", "") == "better, by default"
    failed = "not reproduced, because the cause was not measured"
    assert verdict_of(1.0, 0.1, 9.0, 9.0, "lower", "") == failed
    assert verdict_of(1.0, 0.1, 9.0, None, "lower", "of x").endswith("because of x")


def rows_of_a_script(table, full):
    """Two numbers, a claim, a set that is missing and a picture."""
    table.add("Table 1", "a", 1.0, 0.1, published=Measured((1.0, 1.1)), default=0.2)
    table.add("Table 1", "b", 1.0, published=2.0, reason=f"full is {full}")
    table.claim("Figure 1", "c", "grows", "grows", holds=True)
    table.missing("Table 1", "d", "3.0", "d.csv is not there")
    table.measured("Table 1", "e", Measured((3.0,)))
    with table.figure("picture", 1, 2) as axes:
        axes[0, 1].plot([0.0, 1.0])


def fails(table, full):
    """A script that ends after its first row."""
    table.add("Table 2", "first", 1.0, published=1.0)
    raise RuntimeError("no luck")


def run(monkeypatch, folder, *scripts, arguments=("001",)):
    named = {f"script_{i}": script for i, script in enumerate(scripts)}
    monkeypatch.setattr(runner, "SCRIPTS", dict.fromkeys(results.PAPERS, named))
    return runner.main([*arguments, "--results", str(folder)])


def test_the_table_has_all_rows_and_the_figures(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path, rows_of_a_script) == 0
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert [row["verdict"] for row in rows] == [
        "reproduced",
        "not reproduced, because full is False",
        "reproduced",
        "not run: d.csv is not there",
        "no printed value at hand",
    ]
    first = rows[0]
    assert first["printed"] == "1.000 (0.100)"
    assert first["published"] == "1.050 (0.071)"
    assert first["default"] == "0.200"
    table = (tmp_path / "table.md").read_text()
    assert "## Stein random feature regression" in table
    assert "2 of 3 values reproduced or better (67 %), 1 others with a reason" in table
    assert (tmp_path / "results.csv").read_text().startswith("paper,place,item,printed")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert "d: left out, d.csv is not there" in capsys.readouterr().out


def test_rows_of_a_script_replace_its_earlier_ones(monkeypatch, tmp_path):
    run(monkeypatch, tmp_path, rows_of_a_script)
    run(monkeypatch, tmp_path, rows_of_a_script, arguments=("001", "--full"))
    rows = Results(tmp_path).rows
    assert len(rows) == 5
    assert rows[1].verdict.endswith("full is True")


def test_a_failing_script_is_named_and_the_others_run(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path, fails, rows_of_a_script) == 1
    printed = capsys.readouterr()
    assert "failed: script_0" in printed.out
    assert "no luck" in printed.err
    scripts = [row.script for row in Results(tmp_path).rows]
    assert scripts.count("script_0") == 1
    assert scripts.count("script_1") == 5


def test_an_unknown_paper_is_refused(tmp_path):
    with pytest.raises(SystemExit):
        runner.main(["005", "--results", str(tmp_path)])


def test_every_paper_has_scripts():
    assert list(runner.SCRIPTS) == list(results.PAPERS)
    assert decoupled_draws.run in runner.SCRIPTS["004"].values()


def test_sets_are_read_from_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(results.FOLDER, str(tmp_path))
    assert results.load("boston") is None
    (tmp_path / "boston.csv").write_text("a,b,y\n1,2,3\n4,,6\n7,8,9\n")
    X, y = results.load("boston")
    np.testing.assert_array_equal(X, [[1.0, 2.0], [7.0, 8.0]])
    np.testing.assert_array_equal(y, [3.0, 9.0])
    (tmp_path / "energy.csv").write_text("a,heating,cooling\n1,2,3\n4,5,6\n")
    assert results.load("energy_heating")[1].tolist() == [2.0, 5.0]
    assert results.load("energy_cooling")[1].tolist() == [3.0, 6.0]
    monkeypatch.delenv(results.FOLDER)
    assert results.load("boston") is None


def test_missing_sets_are_named_in_the_table(monkeypatch, tmp_path):
    monkeypatch.delenv(results.FOLDER, raising=False)
    table = Results(tmp_path)
    with table.of("000", "pls_tables"):
        pls_tables.table_3(table, full=False)
        assert pls_tables.table_4(table, full=False) == {}
    named = {row.item: row.verdict for row in table.rows if "Table 3" in row.place}
    assert named["heart"] == "not run: heart.csv is not there"
    assert len(named) == len(pls_tables.CLASSES)
    assert len(table.rows) == len(named) + 3 * len(pls_tables.NUMBERS)


def test_conformal_widths_cover_the_share_that_they_state():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(4000)
    narrow = pls_tables.Predictions(
        np.zeros(4000), np.full(4000, -0.1), np.full(4000, 0.1), np.zeros(4000)
    )
    width = pls_tables.conformal_width(narrow, y, narrow)
    assert width == pytest.approx(2.0 * 1.96, rel=0.05)


def test_the_closest_normal_distribution_is_exact_for_normal_noise():
    """Natural gradients end at the posterior of Bayesian linear regression."""
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((50, 3))
    y = Phi @ [1.0, -1.0, 0.5] + 0.3 * rng.standard_normal(50)

    class Basis:
        def __call__(self, X):
            return X

        def residual_variance(self, X, features):
            return np.zeros(len(X))

    mean = SimpleNamespace(shift=np.zeros(1))
    model = SimpleNamespace(posterior_=SimpleNamespace(basis=Basis(), mean=mean))

    def normal(f, y):
        error = (y - f) / 0.09
        return -0.045 * error**2, error, np.full(f.shape, -1.0 / 0.09)

    closest = pls_tables.closest_normal(model, Phi, y, normal)
    S = np.linalg.inv(np.eye(3) + Phi.T @ Phi / 0.09)
    np.testing.assert_allclose(closest.mean, S @ Phi.T @ y / 0.09, rtol=1e-4)
    np.testing.assert_allclose(closest.root @ closest.root.T, S, rtol=1e-3, atol=1e-8)


# ---- Fetching ------------------------------------------------------------------------


def openml(frames):
    """A stand-in for fetch_openml, by the number of the set."""

    def fetcher(data_id, as_frame, parser):
        assert as_frame
        assert parser == "auto"
        if data_id not in frames:
            raise OSError("no network")
        frame = frames[data_id]
        return SimpleNamespace(frame=frame, target_names=list(frame.columns[:1]))

    return fetcher


def small(monkeypatch, name, shape, **changes):
    source = fetch.SOURCES[name]._replace(shape=shape, **changes)
    monkeypatch.setitem(fetch.SOURCES, name, source)


def test_a_set_is_written_in_the_format_that_load_reads(monkeypatch, tmp_path):
    frame = pd.DataFrame(
        {"Class": ["malignant", "benign", "benign"], "b": [1.0, 2.0, np.nan]}
    )
    frame["c"] = ["x", "z", "x"]
    small(monkeypatch, "breast", (2, 3))
    assert fetch.main([str(tmp_path), "breast"], openml({15: frame})) == 0
    assert (tmp_path / "breast.csv").read_text() == "b,c,Class\n1,0,1\n2,1,0\n"
    monkeypatch.setenv(results.FOLDER, str(tmp_path))
    assert results.load("breast")[1].tolist() == [1.0, 0.0]
    # a file that is there is not fetched again
    assert fetch.main([str(tmp_path), "breast"], openml({})) == 0


def test_the_target_is_the_last_column(monkeypatch):
    frame = pd.DataFrame({"Rr": [1.0, 2.0], "LC": [3.0, 4.0], "PC": [5.0, 6.0]})
    small(monkeypatch, "yacht", (2, 3))
    header, table = fetch.table_of("yacht", openml({42370: frame}))
    assert header == ["LC", "PC", "Rr"]
    assert table[0].tolist() == [3.0, 5.0, 1.0]


def test_indicators_and_two_targets_of_energy(monkeypatch):
    frame = pd.DataFrame({"V1": [1.0, 2.0], "V6": [3, 4], "y1": [5.0, 6.0]})
    frame["y2"] = [7.0, 8.0]
    small(monkeypatch, "energy", (2, 5))
    header, table = fetch.table_of("energy", openml({1472: frame}))
    assert header == ["V1", "V6_3", "V6_4", "y1", "y2"]
    np.testing.assert_array_equal(table[0], [1.0, 1.0, 0.0, 5.0, 7.0])


def test_the_colour_of_wine_is_made_of_two_sets(monkeypatch):
    red = pd.DataFrame({"V1": [1.0, 2.0], "class": ["3", "4"]})
    white = pd.DataFrame({"V1": [3.0], "Class": ["5"]})
    small(monkeypatch, "wine", (2, 2))
    monkeypatch.setattr(fetch, "WHITE", fetch.WHITE._replace(shape=(1, 2)))
    header, table = fetch.table_of("wine_colour", openml({40691: red, 40498: white}))
    assert header == ["V1", "red"]
    assert table.tolist() == [[1.0, 1.0], [2.0, 1.0], [3.0, 0.0]]


def test_a_set_that_differs_or_cannot_be_had_is_named(tmp_path, capsys):
    frame = pd.DataFrame({"a": [1.0], "MEDV": [2.0]})
    frames = openml({531: frame})
    assert fetch.main([str(tmp_path), "boston", "yacht"], frames) == 1
    printed = capsys.readouterr().out
    assert "boston (OpenML 531) has 1 rows without gaps and 2 columns" in printed
    assert "yacht: no network" in printed
    assert "not fetched: boston, yacht" in printed
    assert not list(tmp_path.iterdir())


def test_sources_are_known_sets():
    numbers = [source.data_id for source in fetch.SOURCES.values()]
    assert len(set(numbers)) == len(numbers)
    wanted = {
        results.stem_of(name) for name in (*pls_tables.CLASSES, *pls_tables.NUMBERS)
    }
    assert wanted - {"rice"} <= set(fetch.NAMES)
