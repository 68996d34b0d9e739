"""The line of all who may be in the bank during a batch: their classes, and their scores."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_AHEAD = 1 << 15  # scores that are computed at once; of more, too few would be read


class Classes:
    """Who in the line is of which class, and how many of it the bank holds.

    Classes are numbered as they stand in the line, so nothing here grows with all that exist.

    Args:
        label: Of everyone, (M,); equal ones stand together.
        held: Where those stand whom the bank holds.

    Attributes:
        of: The number of everyone's class, (M,).
        count: How many of each class the bank holds.
        everywhere: 0 to M − 1.

    Example:
        >>> classes = Classes(np.array([7, 7, 7, 4, 4]), held=np.array([0, 2, 3]))
        >>> classes.of.tolist(), classes.count.tolist(), classes.largest().tolist()
        ([0, 0, 0, 1, 1], [2, 1], [0, 1, 2])
    """

    def __init__(self, label: Ints, held: Ints) -> None:
        begins = np.ones(len(label), dtype=bool)
        np.not_equal(label[1:], label[:-1], out=begins[1:])
        self.of = begins.cumsum() - 1
        self._bounds = [*np.flatnonzero(begins).tolist(), len(label)]
        self.count = np.bincount(self.of[held], minlength=len(self._bounds) - 1)
        self.everywhere = np.arange(len(label))
        self._largest: Ints | None = None

    def stretch(self, own: int) -> slice:
        """Where those of a class stand."""
        return slice(self._bounds[own], self._bounds[own + 1])

    def largest(self) -> Ints:
        """Where those of the classes stand of which the bank holds most."""
        if self._largest is None:
            is_largest = self.count == self.count.max()
            self._largest = np.flatnonzero(is_largest[self.of])
        return self._largest

    def exchange(self, came: int, gone: int | None) -> None:
        """One of class ``came`` comes into the bank, for whoever stands at ``gone``."""
        if gone is not None:
            if self.of[gone] == came:
                return
            self.count[self.of[gone]] -= 1
        self.count[came] += 1
        self._largest = None


class Scores:
    """H of Eq. 6 of everyone in the line while the batch is presented; −∞ when not in the bank.

    Args:
        arrived: Of everyone, (M,).
        weighted: λ_u·U / log C of everyone, (M,), −∞ of those not in the bank; is changed.
        times: The clock at each newcomer, (B,).
        capacity: N.
        lambda_t: λ_t.

    Example:
        >>> scores = Scores(np.array([9, 0]), np.array([-np.inf, 0.5]), np.array([9, 10]), 4, 1.0)
        >>> scores.enter(0, 0, 0.2)
        >>> scores.of(slice(0, 2), 1).round(3).tolist()
        [0.762, 1.424]
    """

    def __init__(
        self, arrived: Ints, weighted: Floats, times: Ints, capacity: int, lambda_t: float
    ) -> None:
        self._arrived = arrived
        self._weighted = weighted
        self._times = times
        self._capacity = capacity
        self._lambda_t = lambda_t
        self._ahead: Floats | None = None
        if len(times) * len(arrived) <= _AHEAD:
            self._ahead = self._timely(arrived - times[:, None]) + weighted
            self._young = self._timely(-1 - np.arange(len(times)))

    def of(self, who: Ints | slice, i: int) -> Floats:
        """Of some in the line, when newcomer ``i`` is presented."""
        if self._ahead is not None:
            ahead: Floats = self._ahead[i][who]
            return ahead
        score: Floats = self._timely(self._arrived[who] - self._times[i]) + self._weighted[who]
        return score

    def enter(self, who: int, i: int, weighted: float) -> None:
        """Newcomer ``i``, who stands there, is in the bank from now on."""
        self._weighted[who] = weighted
        if self._ahead is not None:
            self._ahead[i + 1 :, who] = self._young[: len(self._young) - i - 1] + weighted

    def leave(self, who: int, i: int) -> None:
        """Whoever stands there had to go for newcomer ``i``."""
        self._weighted[who] = -np.inf
        if self._ahead is not None:
            self._ahead[i + 1 :, who] = -np.inf

    def _timely(self, minus_age: Ints) -> Floats:
        """λ_t / (1 + exp(−A/N)); in float32 it would saturate near age 1,000."""
        timely = minus_age / self._capacity
        np.exp(timely, out=timely)
        timely += 1
        return np.divide(self._lambda_t, timely, out=timely)
