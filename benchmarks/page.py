"""All results of this machine on one page: ``python -m benchmarks.page``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS


def write_page() -> Path:
    """Write `benchmarks/results/index.md` from the JSON files beside it."""
    parts = ["# Measured on this machine", ""]
    for path in sorted(RESULTS.glob("*.json")):
        parts += section(path.stem, json.loads(path.read_text()))
    page = RESULTS / "index.md"
    page.write_text("\n".join(parts) + "\n")
    return page


def section(name: str, content: dict[str, Any]) -> list[str]:
    """One benchmark: machine, versions, memory, and its rows as a table."""
    machine, rows = content["machine"], content["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    said = [f"{key} {_cell(value)}" for key, value in content["settings"].items()]
    versions = [f"{key} {value}" for key, value in machine["versions"].items()]
    load, peak = _cell(machine["load"]), _cell(machine.get("peak_gib"))
    return [
        f"## {name}",
        "",
        f"{machine['system']}, {machine['processors']} processors, load {load}, peak "
        f"memory {peak} GiB; Python {machine['python']}, {', '.join(versions)}.",
        *(["", f"Settings: {'; '.join(said)}."] if said else []),
        "",
        _line(columns),
        _line(["---"] * len(columns)),
        *(_line([_cell(row.get(c, "")) for c in columns]) for row in rows),
        "",
    ]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.stdout.write(f"{write_page()}\n")
