"""Which rows a search for hyperparameters reads, and which judge what it found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skgpx._selection._copies import how_counted, search_weights
from skgpx._selection._search_record import SearchRecord
from skgpx._validation import Rows

Array = NDArray[np.float64]

# Rows that compare the candidates, rows that polish the best, and rows that judge.
FEW_ROWS, SOME_ROWS, _JUDGES = 500, 1500, 1500
# From so many rows on held-out density is the judge.
ABUNDANT_ROWS = 3 * SOME_ROWS


class Sample(NamedTuple):
    """Parts of the rows, disjoint but for `few`, which is a part of `some`.

    Attributes
    ----------
    few, some : Rows
    judges : Rows or None
        Rows that no search sees; None where rows are scarce.
    others : Rows or None
        The remaining rows.
    """

    few: Rows
    some: Rows
    judges: Rows | None
    others: Rows | None

    @classmethod
    def of(
        cls, rows: Rows, rng: np.random.Generator, few_rows: int | None = None
    ) -> Sample:
        """Draw the parts: first rows with probabilities proportional to weights.

        `few` has 500 rows, unless another number is given.
        """
        n, few_rows = len(rows.y), FEW_ROWS if few_rows is None else few_rows
        # by y: the order of the columns of X does not matter
        by_y = np.argsort(rows.y, kind="stable")
        keys = rng.exponential(size=n) / rows.weights[by_y]
        order = by_y[np.argsort(keys, kind="stable")]
        few, some = (sampled(rows, order[:size]) for size in (few_rows, SOME_ROWS))
        if n < ABUNDANT_ROWS:
            return cls(few, some, None, None)
        judges = drawn(rows, order[SOME_ROWS : SOME_ROWS + _JUDGES])
        return cls(few, some, judges, taken(rows, order[SOME_ROWS + _JUDGES :]))

    def without_others(self) -> Sample:
        """Parts that searches read."""
        return self._replace(others=None)

    def record(self, rows: Rows, several: bool) -> SearchRecord:
        """What a search by the exact evidence reads of all rows.

        `several` says whether candidates were compared.
        """
        copies = how_counted(self.some, rows)
        counts = len(rows.y), len(self.some.y)
        found = SearchRecord("exact evidence", *counts, copies=copies)
        return compared(found, self.judges) if several else found

    def density_ratio(self) -> float:
        """How many times closer to each other all but judges are than some rows."""
        n, d = self.some.X.shape
        others = 0 if self.others is None else len(self.others.y)
        return float((1.0 + others / n) ** (1.0 / d))


def compared(record: SearchRecord, judges: Rows | None) -> SearchRecord:
    """With what compared candidates: rows kept out, if there are any."""
    if judges is None:
        return record._replace(chosen_by="evidence less a price for parameters")
    by = "log density of rows kept out"
    return record._replace(chosen_by=by, rows_kept_out_to_choose=len(judges.y))


def sampled(rows: Rows, chosen: NDArray[np.intp], noisy: bool = True) -> Rows:
    """These of the rows as a sample of single rows; of all rows, those at one input.

    A row that is there three times seldom comes twice into a sample of few. With its
    weight it would: and repetitions of one y say that there is no noise. So do those of
    all rows, but where other targets stand at the same input. Where y is not `noisy`,
    a count or a class, all rows have their weights.
    """
    part = taken(rows, chosen)
    if len(part.y) == len(rows.y):
        return part._replace(weights=search_weights(part)) if noisy else part
    return part._replace(weights=np.minimum(part.weights, 1.0))


def drawn(rows: Rows, chosen: NDArray[np.intp]) -> Rows:
    """Rows that were drawn with probabilities proportional to weights: one of each."""
    part = taken(rows, chosen)
    return part._replace(weights=np.ones(len(part.y)))


def taken(rows: Rows, chosen: NDArray[np.intp]) -> Rows:
    """These rows, in the order of all."""
    return rows.take(np.sort(chosen))
