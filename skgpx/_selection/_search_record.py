"""Which rows chose the hyperparameters, and by what."""

from __future__ import annotations

from typing import Any, NamedTuple


class SearchRecord(NamedTuple):
    """Which rows chose the hyperparameters, and by what; what is empty did not happen.

    Attributes
    ----------
    criterion : str
        What the search maximised.
    distinct_rows : int
        Rows of positive weight of the fit, repetitions counted once.
    rows_searched : int or str
        Rows that the last search read; "all" where it read sums over every row.
    pilot_rows : int
        Rows of a search before it, which decided where it starts.
    copies : str
        How rows that are there more than once were counted, if not by their weights.
    neighbourhoods : str
        Neighbourhoods of rows whose evidence counted besides.
    chosen_by : str
        What compared candidates, where there were several.
    rows_kept_out_to_choose : int
        Rows that no search read, and by which candidates were compared.
    lengthscales : str
        What they are where all columns share one.
    noise : str
        What chose the noise variance afterwards.
    rows_kept_out_for_noise : int
        Rows kept out for that.
    rows_that_moved_frequencies : int
        Rows from which frequencies were learned.
    errors_that_tempered : int
        Errors at rows unseen by what is judged, which chose the size of the variances;
        a row left out twice counts twice.

    Examples
    --------
    >>> from skgpx._selection import SearchRecord
    >>> SearchRecord("exact evidence", 2000, 1500).section()
    {'criterion': 'exact evidence', 'distinct_rows': 2000, 'rows_searched': 1500}
    """

    criterion: str = "nothing was free"
    distinct_rows: int = 0
    rows_searched: int | str = 0
    pilot_rows: int = 0
    copies: str = ""
    neighbourhoods: str = ""
    chosen_by: str = ""
    rows_kept_out_to_choose: int = 0
    lengthscales: str = ""
    noise: str = ""
    rows_kept_out_for_noise: int = 0
    rows_that_moved_frequencies: int = 0
    errors_that_tempered: int = 0

    def section(self) -> dict[str, Any]:
        """What happened, by name."""
        return {name: value for name, value in self._asdict().items() if value}

    def with_noise(self, by: str, rows: int = 0) -> SearchRecord:
        """With what chose the noise variance after the search."""
        return self._replace(noise=by, rows_kept_out_for_noise=rows)


# What chose the noise variance.
NOISE_AS_SEARCHED, NOISE_BY_BOUND = "as searched", "bound of all rows"
NOISE_BY_DENSITY = "log density of rows kept out"

# How rows of a weight above one were counted where their copies made noise vanish.
COUNTED_ONCE = "once: with their copies noise would vanish"
