"""When to raise an alarm: evidence that accumulates, with a bound on false alarms.

The Shiryaev–Roberts procedure on e-values (e-detectors: Shin, Ramdas and Rinaldo, 2022).

Claim: as long as a healthy model's score has E[s_t | the past] ≤ m, whatever its distribution and
however one score depends on the others, the mean number of looks to an alarm is at least A.

Proof: e_t = 1 + λ·(s_t − m) is not negative for s_t ≥ 0 and λ ≤ 1/m, and E[e_t | past] ≤ 1. With
R_t = (1 + R_{t−1})·e_t and R_0 = 0, E[R_t | past] ≤ 1 + R_{t−1}, so R_t − t is a supermartingale.
At the first T with R_T ≥ A it gives A ≤ E[R_T] ≤ E[T].
"""

MOST_LOST = 0.06
"""m: a healthy model gives up less than this share of its reference's belief, on average."""
LOOKS_PER_FALSE_ALARM = 10_000
"""A. No look is at less than one batch, so there is at most one false alarm in 10,000 batches."""


class EvidenceOfHarm:
    """R: how much speaks for harm, from one look to the next.

    Args:
        most: m, the mean of the score that is still healthy, above 0.
        looks_per_false_alarm: A.

    Attributes:
        value: R.

    Example:
        >>> evidence, looks = EvidenceOfHarm(), 0
        >>> while not evidence.is_enough:
        ...     evidence.add(0.9)
        ...     looks += 1
        >>> looks
        5
    """

    def __init__(
        self, most: float = MOST_LOST, looks_per_false_alarm: int = LOOKS_PER_FALSE_ALARM
    ) -> None:
        self._most = most
        self._enough = looks_per_false_alarm
        self.value = 0.0

    def add(self, score: float) -> None:
        """Take in a score, 0 … 1."""
        bet = 1 / (2 * self._most)  # λ: half of what may be staked, good against small harm too
        self.value = (1 + self.value) * (1 + bet * (score - self._most))

    @property
    def is_enough(self) -> bool:
        """Whether to raise an alarm."""
        return self.value >= self._enough

    def forget(self) -> None:
        """Start anew, after something was done about it."""
        self.value = 0.0
