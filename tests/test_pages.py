"""The code of the pages runs as it stands, and prints what they show."""

import contextlib
import io
import re
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[1]
GUIDES = [
    "calibration",
    "draws",
    "extending",
    "gwi",
    "index",
    "kernels",
    "pls",
    "series",
]
GUIDES += ["spectral_vgp", "start", "stein_regressor", "warnings"]
# The other guides also have fragments, which need models of other libraries, a cluster
# or rows of the reader's. The code of docs/howto/cluster.md is behind a main guard.
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GUIDES)]
PAGES += sorted((ROOT / "docs" / "howto").glob("*.md"))
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def without_numbers(text):
    """Text in which every number, and what aligns it, is the same."""
    return re.sub(r"[-+]?\b\d[\d.e]*(?: (?=\]))?", "0", text)


@pytest.mark.usefixtures("few_neighborhoods")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "page"}, ""
    plt.switch_backend("Agg")
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            # threads of boosting wait for one another on a busy machine
            stdout = contextlib.redirect_stdout(io.StringIO())
            with threadpool_limits(1), stdout as stream:
                exec(compile(text, page.name, "exec"), names)
            printed = stream.getvalue()
        elif printed:
            same = OutputChecker().check_output(
                *map(without_numbers, (text, printed)), ELLIPSIS | NORMALIZE_WHITESPACE
            )
            assert same, f"the page shows\n{text}\nand its code prints\n{printed}"
    plt.close("all")
