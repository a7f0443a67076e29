"""Tables on the screen, JSON on the disk."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "gpytorch", "botorch")
PACKAGES += ("optuna", "ProcessOptimizer", "HEBO", "celerite2", "statsmodels")

Row = Mapping[str, Any]


def report(
    name: str,
    rows: Sequence[Row],
    settings: Row | None = None,
    shown: Sequence[str] | None = None,
) -> Path:
    """Print ``rows`` as a table and save them; return the file's path.

    Parameters
    ----------
    name : str
        Of the benchmark; the file is ``benchmarks/results/NAME.json``.
    rows : sequence of mapping
        One mapping a line; the columns are the union of the keys, in order.
    settings : mapping, optional
        What the figures depend on and the rows do not say.
    shown : sequence of str, optional
        Columns of the printed table; the file holds all.
    """
    printed = (
        rows if shown is None else [{k: r.get(k, "") for k in shown} for r in rows]
    )
    sys.stdout.write(f"\n{name}\n{table(printed)}\n")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {"settings": settings or {}, "machine": machine(), "rows": list(rows)}
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")
    return path


def progress(row: Row) -> None:
    """Show a row as soon as it is measured, on the error stream."""
    cells = (f"{key} {_cell(value)}" for key, value in row.items())
    sys.stderr.write(f"{', '.join(cells)}\n")
    sys.stderr.flush()


def table(rows: Sequence[Row]) -> str:
    """Lay ``rows`` out in aligned columns, numbers with three significant digits."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([_cell(row.get(c, "")) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def machine() -> dict[str, Any]:
    """Processor count, load and versions: a figure without them says little."""
    installed = {d.name for d in metadata.distributions()}
    versions = {p: metadata.version(p) for p in PACKAGES if p in installed}
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "peak_gib": peak_gib(),
        "versions": versions,
    }


def peak_gib() -> float | None:
    """Largest memory of this process so far; None where the system does not say."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)
