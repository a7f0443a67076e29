"""What the scripts of the papers share: data, rows of the table, verdicts, figures.

A script has a function ``run(results, full)``, which adds a row for each printed value
and saves the figures. `Results` writes them to a folder: ``results.json`` and
``results.csv``, one row a value, ``table.md``, the same for readers, and PNG files.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from examples.figure import STYLE

# figures are written, not shown
mpl.use("Agg")
import matplotlib.pyplot as plt

Array = np.ndarray
FOLDER = "SKGPX_PAPER_DATA"
PAPERS = {
    "000": "Projected Langevin sampling",
    "001": "Stein random feature regression",
    "002": "Gaussian Wasserstein inference",
    "003": "Spectral variational processes",
    "004": "Decoupled sampling",
}
SUCCESSES = "reproduced", "better"
# Verdicts of rows that do not count.
UNCOUNTED = "not run", "no printed value"

# ---- Data ----------------------------------------------------------------------------

# Columns that are targets, where a file has two.
TARGETS = {"energy_heating": -2, "energy_cooling": -1}


def stem_of(name: str) -> str:
    """Name of the file of a set."""
    return "energy" if name in TARGETS else name


def load(name: str) -> tuple[Array, Array] | None:
    """Inputs and target of a set, or None where the folder does not have it.

    The folder is named by SKGPX_PAPER_DATA and has NAME.csv or NAME.csv.gz, with one
    header line and the target in the last column; energy has two, heating and cooling.
    Rows with gaps are left out.
    """
    folder = os.environ.get(FOLDER)
    stem = stem_of(name)
    files = sorted(Path(folder).glob(f"{stem}.csv*")) if folder else []
    if not files:
        return None
    table = np.genfromtxt(files[0], delimiter=",", skip_header=1)
    table = table[~np.isnan(table).any(axis=1)]
    n_targets = 2 if stem == "energy" else 1
    return table[:, :-n_targets], table[:, TARGETS.get(name, -1)]


# ---- Rows of the table ---------------------------------------------------------------


class Row(NamedTuple):
    """One printed value or claim beside ours."""

    paper: str
    place: str
    item: str
    printed: str
    published: str
    default: str
    seconds: float | None
    verdict: str
    script: str


HEADER = {
    "place": "table or figure",
    "item": "item",
    "printed": "printed",
    "published": "ours, published setting",
    "default": "ours, default",
    "seconds": "CPU s",
    "verdict": "verdict",
}


def judged(
    printed: float,
    spread: float,
    ours: float | None,
    better: str | None = None,
) -> str | None:
    """ "reproduced" within the spread, "better" beyond it on the good side, or None.

    `better` is "lower", "higher" or None, where no side is good.
    """
    if ours is None or not math.isfinite(ours):
        return None
    if abs(ours - printed) <= spread * (1.0 + 1e-9):
        return "reproduced"
    gain = {"lower": printed - ours, "higher": ours - printed}.get(better or "", -1.0)
    return "better" if gain > 0.0 else None


def verdict_of(
    printed: float,
    spread: float,
    published: float | None,
    default: float | None,
    better: str | None,
    reason: str,
) -> str:
    """The verdict of a value: that of the published setting, or of the default."""
    first = judged(printed, spread, published, better)
    if first is not None:
        return first
    second = judged(printed, spread, default, better)
    if second is not None:
        return f"{second}, by default"
    return f"not reproduced, because {reason or 'the cause was not measured'}"


def spelled(value: float | None, spread: float | None, digits: int | None) -> str:
    """A mean with its spread in brackets; three significant digits for None."""
    if value is None or not math.isfinite(value):
        return ""
    form = ".3g" if digits is None else f".{digits}f"
    if spread is None or not math.isfinite(spread):
        return f"{value:{form}}"
    return f"{value:{form}} ({spread:{'.2g' if digits is None else form}})"


class Measured(NamedTuple):
    """Values of several splits or seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.values))

    @property
    def std(self) -> float:
        """Their standard deviation, NaN of a single one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan


class Results:
    """Rows and figures of a run, in a folder.

    Parameters
    ----------
    folder : path
        Where the tables and figures are written. Rows of other scripts, which an
        earlier run has left there, stay.
    """

    def __init__(self, folder: str | Path = "results"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rows: list[Row] = []
        self.notes: dict[str, list[str]] = {}
        self.paper = self.script = ""
        file = self.folder / "results.json"
        if file.exists():
            earlier = json.loads(file.read_text("utf-8"))
            self.rows = [Row(**row) for row in earlier["rows"]]
            self.notes = earlier["notes"]

    @contextmanager
    def of(self, paper: str, script: str) -> Iterator[None]:
        """Rows that are added belong to this script, and replace its earlier ones."""
        self.paper = paper
        self.script = script
        self.rows = [row for row in self.rows if row.script != script]
        self.notes.pop(script, None)
        try:
            with warnings.catch_warnings():
                # few points and short chains are the subject of many settings
                warnings.simplefilter("ignore")
                yield
        finally:
            self.write()

    def step(self, text: str) -> None:
        """A line of progress."""
        print(f"  {text}", flush=True)

    def add(
        self,
        place: str,
        item: str,
        printed: float,
        spread: float = math.nan,
        *,
        published: Measured | float | None = None,
        default: Measured | float | None = None,
        better: str | None = "lower",
        digits: int | None = 3,
        tolerance: float | None = None,
        seconds: float | None = None,
        reason: str = "",
    ) -> None:
        """A printed number beside ours.

        The verdict allows the printed spread or, where there is none, `tolerance`.
        """
        values = [
            value if isinstance(value, Measured | None) else Measured((value,))
            for value in (published, default)
        ]
        means = [None if value is None else value.mean for value in values]
        allowed = 0.0 if digits is None else 0.5 * 10.0**-digits
        allowed += spread if math.isfinite(spread) else tolerance or 0.0
        self._append(
            place,
            item,
            spelled(printed, spread, digits),
            *(
                "" if value is None else spelled(value.mean, value.std, digits)
                for value in values
            ),
            seconds,
            verdict_of(printed, allowed, *means, better, reason),
        )

    def claim(
        self,
        place: str,
        item: str,
        printed: str,
        published: str,
        *,
        holds: bool,
        default: str = "",
        seconds: float | None = None,
        reason: str = "",
    ) -> None:
        """A printed statement, or a picture without numbers, beside ours."""
        failed = f"not reproduced, because {reason or 'the cause was not measured'}"
        verdict = "reproduced" if holds else failed
        self._append(place, item, printed, published, default, seconds, verdict)

    def missing(self, place: str, item: str, printed: str, what: str) -> None:
        """A printed result that cannot be run here: data or a package are not there."""
        self.step(f"{place}, {item}: left out, {what}")
        self._append(place, item, printed, "", "", None, f"not run: {what}")

    def measured(
        self,
        place: str,
        item: str,
        published: Measured,
        default: Measured | None = None,
        *,
        digits: int = 2,
        seconds: float | None = None,
    ) -> None:
        """Our values where the printed ones are not at hand; they do not count."""
        ours = "" if default is None else spelled(default.mean, default.std, digits)
        self._append(
            place,
            item,
            "",
            spelled(published.mean, published.std, digits),
            ours,
            seconds,
            "no printed value at hand",
        )

    def note(self, text: str) -> None:
        """A sentence below the table of the paper."""
        self.notes.setdefault(self.script, []).append(text)

    def _append(
        self,
        place: str,
        item: str,
        printed: str,
        published: str,
        default: str,
        seconds: float | None,
        verdict: str,
    ) -> None:
        row = Row(
            paper=self.paper,
            place=place,
            item=item,
            printed=printed,
            published=published,
            default=default,
            seconds=None if seconds is None else round(seconds, 2),
            verdict=verdict,
            script=self.script,
        )
        self.rows.append(row)

    @contextmanager
    def figure(
        self,
        name: str,
        n_rows: int = 1,
        n_columns: int = 1,
        size: tuple[float, float] = (6.0, 4.0),
    ) -> Iterator[Array]:
        """Axes (rows, columns) of a picture, which is written as NAME.png."""
        style = {**STYLE, "font.size": 8.0, "axes.titlesize": 9.0}
        with plt.rc_context(style):
            figure, axes = plt.subplots(
                n_rows, n_columns, figsize=size, squeeze=False, layout="constrained"
            )
            yield axes
            self.keep(name, figure)
            plt.close(figure)

    def keep(self, name: str, figure: Figure) -> None:
        """Write a picture as NAME.png."""
        figure.savefig(self.folder / f"{name}.png", dpi=100, facecolor="white")
        self.step(f"figure {name}.png")

    def write(self) -> None:
        """Write the tables."""
        rows = sorted(self.rows, key=lambda row: row.paper)
        content = {"rows": [row._asdict() for row in rows], "notes": self.notes}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (self.folder / "results.json").write_text(text + "\n", "utf-8")
        with open(self.folder / "results.csv", "w", newline="", encoding="utf-8") as f:
            writer = csv.writer(f)
            writer.writerow(Row._fields)
            writer.writerows(rows)
        (self.folder / "table.md").write_text(markdown(rows, self.notes), "utf-8")


def share(rows: list[Row]) -> tuple[int, int, int]:
    """Numbers of rows that are good, that have a reason, and of all that count."""
    run = [row for row in rows if not row.verdict.startswith(UNCOUNTED)]
    good = [row for row in run if row.verdict.startswith(SUCCESSES)]
    unknown = [row for row in run if "the cause was not measured" in row.verdict]
    return len(good), len(run) - len(good) - len(unknown), len(run)


def summary(rows: list[Row]) -> str:
    """One line about some rows."""
    good, explained, total = share(rows)
    left_out = sum(row.verdict.startswith("not run") for row in rows)
    percent = 100.0 * good / total if total else 0.0
    return (
        f"{good} of {total} values reproduced or better ({percent:.0f} %), "
        f"{explained} others with a reason, {left_out} not run"
    )


def markdown(rows: list[Row], notes: dict[str, list[str]]) -> str:
    """All rows as tables, one a paper."""
    lines = []
    for paper, title in PAPERS.items():
        chosen = [row for row in rows if row.paper == paper]
        if not chosen:
            continue
        lines += [f"## {title}", "", summary(chosen) + ".", ""]
        lines.append("| " + " | ".join(HEADER.values()) + " |")
        lines.append("|---" * len(HEADER) + "|")
        for row in chosen:
            values = row._asdict()
            seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
            values["seconds"] = seconds
            lines.append("| " + " | ".join(values[name] for name in HEADER) + " |")
        lines.append("")
        for script in dict.fromkeys(row.script for row in chosen):
            lines += [f"* {text}" for text in notes.get(script, [])]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


# ---- Running a script by itself ------------------------------------------------------


@contextmanager
def clock() -> Iterator[Callable[[], float]]:
    """CPU seconds since the beginning of the block."""
    begin = time.process_time()
    yield lambda: time.process_time() - begin


def alone(paper: str, script: str, run: Callable[[Results, bool], None]) -> None:
    """The main function of a script: its rows and figures, in a folder."""
    parser = argparse.ArgumentParser(prog=f"python -m examples.papers.{script}")
    parser.add_argument("--full", action="store_true", help="the published sizes")
    parser.add_argument("--results", default="results", metavar="FOLDER")
    options = parser.parse_args()
    results = Results(options.results)
    with results.of(paper, script):
        run(results, options.full)
    mine = [row for row in results.rows if row.script == script]
    print(summary(mine))
