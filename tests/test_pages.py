"""The code of the pages runs as it stands, and prints what they show."""

import contextlib
import io
import math
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
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
SECONDS = NUMBER + r"(?= s\b)"
PIECE = re.compile(
    rf"(?P<seconds>{SECONDS})|(?P<number>{NUMBER})|\.\.\.|\s+|[^\s\d.]+|."
)
# Pages whose numbers are those of as many states as users have.
AVERAGED = {
    "categories",
    "forecast",
    "monotone",
    "prices",
    "slopes_and_totals",
    "spectra",
}
# Largest relative difference of a number from what its code prints.
TOLERANCE = 0.02
# Pages whose numbers move with the last bits of sums: quantiles of a few averaged
# states, and chains. The test looks at fewer neighbourhoods of many rows than the page,
# and a minimum of the function is at three places.
WIDE = {
    "categories": 1.0,
    "forecast": 0.1,
    "many_rows": 0.05,
    "optimisation": math.inf,
    "own_likelihood": 0.1,
    "preferences": 0.1,
    "start": 0.15,
}


def printed_numbers(shown, printed):
    """Pairs of numbers, that of the page and that of its code; None if words differ.

    Dots stand for any text; seconds, and blanks that align numbers, may differ.
    """
    pattern = r"\s*"
    numbers = []
    for piece in PIECE.finditer(shown):
        text = piece[0]
        if piece["seconds"]:
            pattern += NUMBER
        elif piece["number"]:
            pattern += f"({NUMBER})"
            numbers.append(text)
        elif text == "...":
            pattern += r"(?s:.*?)"
        elif not text.isspace():
            pattern += re.escape(text)
        # two patterns of blanks in a row would be tried in every combination
        if not pattern.endswith(r"\s*"):
            pattern += r"\s*"
    match = re.fullmatch(pattern, printed)
    if match is None:
        return None
    return list(zip(numbers, match.groups(), strict=True))


def last_digit(number):
    """Unit of the last digit that is written: 0.01 for 3.14."""
    mantissa, _, exponent = number.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def differs(shown, printed, tolerance):
    """Whether two numbers differ by more than a part, and than a last digit."""
    allowed = max(tolerance * abs(float(shown)), last_digit(shown), last_digit(printed))
    return abs(float(shown) - float(printed)) > 1.001 * allowed


def test_numbers_of_a_page_are_compared():
    shown = "a 1.00, [ 2. 30.]\n...\nb -0.5 in 3 s\n"
    same = "a 1.01, [2.0 30]\nmore\nb -0.5 in 70 s\n"
    pairs = printed_numbers(shown, same)
    assert pairs == [("1.00", "1.01"), ("2.", "2.0"), ("30.", "30"), ("-0.5", "-0.5")]
    assert not any(differs(*pair, TOLERANCE) for pair in pairs)
    assert differs("1.00", "1.03", TOLERANCE)
    assert differs("0.5", "-0.5", TOLERANCE)
    assert printed_numbers(shown, same.replace("b", "c")) is None


@pytest.mark.usefixtures("few_neighborhoods")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(
    page, tmp_path, monkeypatch, request
):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "page"}, ""
    plt.switch_backend("Agg")
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    if page.stem in AVERAGED:
        request.getfixturevalue("every_state")
    for kind, text in blocks:
        if kind == "python":
            # threads of boosting wait for one another on a busy machine
            stdout = contextlib.redirect_stdout(io.StringIO())
            with threadpool_limits(1), stdout as stream:
                exec(compile(text, page.name, "exec"), names)
            printed = stream.getvalue()
        elif printed:
            pairs = printed_numbers(text, printed)
            both = f"the page shows\n{text}\nand its code prints\n{printed}"
            assert pairs is not None, both
            tolerance = WIDE.get(page.stem, TOLERANCE)
            moved = [pair for pair in pairs if differs(*pair, tolerance)]
            assert not moved, both
    plt.close("all")
