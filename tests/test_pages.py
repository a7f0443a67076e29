"""The code of the pages runs as it stands, and prints what they show."""

import contextlib
import io
import re
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
# A comment before an output gives the standard error of chains, whose random numbers
# are not the same on every machine.
BLOCK = re.compile(
    r"^(?:<!-- standard error (?P<error>[\d.]+) -->\n)?"
    r"^```(?P<kind>python|text)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
NUMBER = r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?!\w)"
# Numbers may differ by so much, and by one unit of the last digit that is shown.
RELATIVE_TOLERANCE = 0.02


def pattern_of(shown):
    """Regular expression of an output whose numbers and spaces are free."""
    words = re.findall(rf"{NUMBER}|\.\.\.|\w+|\S", shown)
    free = {"...": ".*?"}
    parts = [
        f"({NUMBER})" if re.fullmatch(NUMBER, word) else free.get(word, re.escape(word))
        for word in words
    ]
    return re.compile(r"\s*" + r"\s*".join(parts) + r"\s*", re.DOTALL)


def numbers_that_differ(shown, printed, standard_error=0.0):
    """Pairs of numbers of two outputs that disagree; None where the words differ."""
    match = pattern_of(shown).fullmatch(printed)
    if match is None:
        return None
    wrong = []
    for expected, found in zip(re.findall(NUMBER, shown), match.groups(), strict=True):
        decimals = len(expected.split("e")[0].partition(".")[2])
        exponent = int(expected.partition("e")[2] or 0)
        allowed = max(
            RELATIVE_TOLERANCE * abs(float(expected)),
            1.001 * 10.0 ** (exponent - decimals),
            3.0 * standard_error,
        )
        if abs(float(expected) - float(found)) > allowed:
            wrong.append((expected, found))
    return wrong


@pytest.mark.parametrize(
    ("shown", "printed", "differ"),
    [
        ("error 5.27, [5.31 2.0]", "error 5.3, [5.3  2. ]", []),
        ("RBF(0.3) + 2.92**2", "RBF(0.3) + 2.01**2", [("2.92", "2.01")]),
        ("noise 0.22 ... end", "noise 0.24\nmore 7 lines\nend", [("0.22", "0.24")]),
        ("1e-06 of 300 rows", "2e-06 of 300 rows", []),
        ("x1 is 3", "x2 is 3", None),
    ],
)
def test_outputs_are_compared_by_their_numbers(shown, printed, differ):
    assert numbers_that_differ(shown, printed) == differ


def test_a_standard_error_is_for_the_output_that_follows_it():
    page = "<!-- standard error 0.05 -->\n```text\n1.10\n```\n\n```text\n2\n```\n"
    errors = [block["error"] for block in BLOCK.finditer(page)]
    assert errors == ["0.05", None]
    assert numbers_that_differ("1.10", "1.24", 0.05) == []
    assert numbers_that_differ("1.10", "1.26", 0.05) == [("1.10", "1.26")]


@pytest.mark.usefixtures("few_neighborhoods")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "page"}, ""
    plt.switch_backend("Agg")
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        text = block["text"]
        if block["kind"] == "python":
            # threads of boosting wait for one another on a busy machine
            stdout = contextlib.redirect_stdout(io.StringIO())
            with threadpool_limits(1), stdout as stream:
                exec(compile(text, page.name, "exec"), names)
            printed = stream.getvalue()
        elif printed:
            wrong = numbers_that_differ(text, printed, float(block["error"] or 0.0))
            assert wrong == [], f"the page shows\n{text}\nand its code\n{printed}"
    plt.close("all")
