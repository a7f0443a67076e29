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
    kernel : str
        Name of the candidate that was chosen.
    rows_held_out : int
        Rows that no search read, and by which candidates were compared.
    frequency_rows : int
        Rows from which frequencies were learned.
    calibration_rows : int
        Errors at held-out rows, which chose the size of the variances; a row left out
        twice counts twice.

    Examples
    --------
    >>> from skgpx._selection import SearchRecord
    >>> SearchRecord("log evidence", 2000, 1500).section()
    {'criterion': 'log evidence', 'distinct_rows': 2000, 'rows_searched': 1500}
    """

    criterion: str = "nothing was free"
    distinct_rows: int = 0
    rows_searched: int | str = 0
    kernel: str = ""
    rows_held_out: int = 0
    frequency_rows: int = 0
    calibration_rows: int = 0

    def section(self) -> dict[str, Any]:
        """What happened, by name."""
        return {name: value for name, value in self._asdict().items() if value}
