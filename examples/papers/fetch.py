"""Fetch the data sets of the papers from OpenML into a folder of csv files.

    python -m examples.papers.fetch FOLDER [SET ...]

Afterwards ``SKGPX_PAPER_DATA=FOLDER make papers``. Files have one header line, numbers
only, and the target in the last column; `energy` has two, heating and cooling. Classes
are 0 and 1, categories are codes in alphabetical order, rows with gaps are left out.
A set whose numbers of rows and columns are not those below is named and not written. A
file that is there stays. scikit-learn needs pandas for this.

Not on the list are rice (https://archive.ics.uci.edu/dataset/545) and power
(https://archive.ics.uci.edu/dataset/294), which are saved from these pages by hand, and
the fields of AUSWAVE.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml

Array = np.ndarray


class Source(NamedTuple):
    """A set of OpenML, and what its file must look like.

    Attributes
    ----------
    data_id : int
        Number of the set on OpenML.
    name : str
        Its name there.
    targets : tuple of str
        Columns that are targets; empty for what OpenML calls the target.
    shape : tuple of int
        Rows without gaps and columns, target included, of the file.
    one_hot : tuple of str
        Columns of which each value becomes a column of zeros and ones.
    classes : tuple of str
        Values of the target that are kept; empty for all.
    """

    data_id: int
    name: str
    shape: tuple[int, int]
    targets: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


SOURCES = {
    "airfoil": Source(44957, "airfoil_self_noise", (1503, 6)),
    "boston": Source(531, "boston", (506, 14), ("MEDV",)),
    "breast": Source(15, "breast-w", (683, 10), ("Class",)),
    "concrete": Source(44959, "concrete_compressive_strength", (1030, 9)),
    "diabetes": Source(37, "diabetes", (768, 9), ("class",)),
    "energy": Source(
        1472, "energy-efficiency", (768, 18), ("y1", "y2"), one_hot=("V6", "V8")
    ),
    "heart": Source(49, "heart-c", (296, 14), ("num",)),
    "ionosphere": Source(59, "ionosphere", (351, 35), ("class",)),
    "kin8nm": Source(189, "kin8nm", (8192, 9), ("y",)),
    "mushrooms": Source(24, "mushroom", (5644, 23), ("class",)),
    "naval": Source(44969, "naval_propulsion_plant", (11934, 15)),
    "protein": Source(44963, "physiochemical_protein", (45730, 10)),
    "wine": Source(40691, "wine-quality-red", (1599, 12), ("class",)),
    "yacht": Source(42370, "yacht_hydrodynamics", (308, 7)),
    "yeast": Source(
        181, "yeast", (892, 9), ("class_protein_localization",), classes=("CYT", "NUC")
    ),
}
# Red wines, and these.
WHITE = Source(40498, "wine-quality-white", (4898, 12), ("Class",))
NAMES = (*SOURCES, "wine_colour")
Fetcher = Callable[..., Any]


class UnexpectedSet(Exception):
    """A set that is not the one the scripts were written for."""


def codes(values: Any) -> Array:
    """Numbers as they are, and other values as codes in alphabetical order."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        _, numbers = np.unique(np.asarray(values, dtype=str), return_inverse=True)
        return numbers.astype(float)


def columns_of(source: Source, fetcher: Fetcher) -> dict[str, Array]:
    """Columns of a set by name, targets last."""
    found = fetcher(data_id=source.data_id, as_frame=True, parser="auto")
    frame = found.frame.dropna()
    targets = source.targets or tuple(found.target_names)
    if source.classes:
        frame = frame[frame[targets[0]].astype(str).isin(source.classes)]
    columns: dict[str, Array] = {}
    for name in [name for name in frame.columns if name not in targets]:
        if name in source.one_hot:
            values = np.asarray(frame[name], dtype=str)
            for value in np.unique(values):
                columns[f"{name}_{value}"] = (values == value).astype(float)
        else:
            columns[str(name)] = codes(frame[name])
    columns |= {name: codes(frame[name]) for name in targets}
    shape = len(frame), len(columns)
    if shape != source.shape:
        raise UnexpectedSet(
            f"{source.name} (OpenML {source.data_id}) has {shape[0]} rows without gaps "
            f"and {shape[1]} columns, not {source.shape[0]} and {source.shape[1]}"
        )
    return columns


def table_of(name: str, fetcher: Fetcher = fetch_openml) -> tuple[list[str], Array]:
    """Header and numbers of a file."""
    if name != "wine_colour":
        columns = columns_of(SOURCES[name], fetcher)
        return list(columns), np.column_stack(list(columns.values()))
    red = columns_of(SOURCES["wine"], fetcher)
    white = columns_of(WHITE, fetcher)
    # the quality is left out, and the colour is the target
    halves = [np.column_stack(list(part.values()))[:, :-1] for part in (red, white)]
    is_red = np.repeat([1.0, 0.0], [len(half) for half in halves])
    return [*list(red)[:-1], "red"], np.column_stack((np.vstack(halves), is_red))


def write(folder: Path, name: str, fetcher: Fetcher = fetch_openml) -> None:
    """Write the file of a set."""
    header, table = table_of(name, fetcher)
    np.savetxt(
        folder / f"{name}.csv",
        table,
        fmt="%.10g",
        delimiter=",",
        header=",".join(header),
        comments="",
    )


def main(arguments: list[str] | None = None, fetcher: Fetcher = fetch_openml) -> int:
    """Fetch what is missing; 1 if a set could not be had."""
    parser = argparse.ArgumentParser(prog="python -m examples.papers.fetch")
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(NAMES))
    options = parser.parse_args(arguments)
    unknown = set(options.sets) - set(NAMES)
    if unknown:
        parser.error(f"unknown sets: {', '.join(sorted(unknown))}")
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.sets or NAMES:
        if list(options.folder.glob(f"{name}.csv*")):
            print(f"{name}: is there")
            continue
        try:
            write(options.folder, name, fetcher)
        except (OSError, ValueError, KeyError, UnexpectedSet) as error:
            print(f"{name}: {error}")
            failed.append(name)
        else:
            print(f"{name}: written")
    if failed:
        print(f"not fetched: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
