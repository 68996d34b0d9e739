"""How the samples of a stay arrive: steadily, with a ramp, a long tail, a burst, a freeze.

Each arrival is a pure function that turns the steady stay into another; only :func:`mixed` acts
before the steady order is drawn. That order comes from the same numbers for all, so that streams
of one seed differ in the arrival alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rotta.datasets.base import Indices, Labels
from rotta.streams.plan import Stay


def gradual(stay: Stay, peak: int) -> Stay:
    """Let the severity climb from 1 to ``peak`` and fall back to 1, in steps of equal length.

    Example:
        >>> from rotta.streams.plan import whole_domain
        >>> stay = whole_domain(visit=0, domain=0, severity=3, labels=np.zeros(10, np.int64))
        >>> gradual(stay, peak=3).severities.tolist()
        [1, 1, 2, 2, 3, 3, 2, 2, 1, 1]
    """
    step = np.arange(len(stay)) * (2 * peak - 1) // max(1, len(stay))
    return replace(stay, severities=peak - np.abs(step - (peak - 1)))


def mixed(wholes: Sequence[Stay], place: int, rng: np.random.Generator) -> Stay:
    """Shuffle whole domains together and deal them out again in stays of the same sizes.

    So samples of all domains are interleaved, and of one class as many come in a row as ever.

    Args:
        wholes: All domains of a visit.
        place: Which of the new stays to return.
        rng: The same for all stays of a visit.
    """
    pool = Stay.joined(wholes)
    sizes = [len(whole) for whole in wholes]
    start = sum(sizes[:place])
    return pool.take(rng.permutation(len(pool))[start : start + sizes[place]])


def long_tail(stay: Stay, num_classes: int, imbalance: float, rng: np.random.Generator) -> Stay:
    """Thin the classes out: the first stays whole, the last keeps one in ``imbalance``.

    Which samples of a class are left is drawn; they keep their order.
    """
    sizes = long_tail_sizes(stay.labels, num_classes, imbalance)
    kept = [
        rng.choice(np.flatnonzero(stay.labels == label), size, replace=False)
        for label, size in enumerate(sizes)
    ]
    return stay.take(np.sort(np.concatenate(kept)))


def long_tail_sizes(labels: Labels, num_classes: int, imbalance: float) -> Indices:
    """How many samples of each class are left of a domain, (C,).

    Class c of C keeps the share imbalance^(−c / (C − 1)) of its samples, rounded, and at least
    one. So where all classes are as large, the first is ``imbalance`` times as large as the last.

    Example:
        >>> long_tail_sizes(np.repeat([0, 1, 2], 100), num_classes=3, imbalance=100).tolist()
        [100, 10, 1]
    """
    share_c = imbalance ** (-np.arange(num_classes) / max(1, num_classes - 1))
    size_c = np.bincount(labels, minlength=num_classes)
    kept_c = np.maximum(np.rint(share_c * size_c), 1).astype(np.int64)
    return np.minimum(kept_c, size_c)


def burst(stay: Stay, length: int, rng: np.random.Generator) -> Stay:
    """Bring ``length`` samples of one class forward or back to one moment, out of the blue.

    Class, samples and moment are drawn. A class with fewer samples comes as a whole.

    Example:
        >>> from rotta.streams.plan import whole_domain
        >>> stay = whole_domain(visit=0, domain=0, severity=5, labels=np.arange(12) % 4)
        >>> burst(stay, length=3, rng=np.random.default_rng(0)).labels.tolist()
        [0, 1, 2, 3, 3, 3, 0, 1, 2, 0, 1, 2]
    """
    if not len(stay):
        return stay
    label = rng.choice(np.unique(stay.labels))
    members = rng.permutation(np.flatnonzero(stay.labels == label))[:length]
    others = np.delete(np.arange(len(stay)), members)
    moment = rng.integers(len(others), endpoint=True)
    return stay.take(np.insert(others, moment, np.sort(members)))


def freeze(stay: Stay, length: int, rng: np.random.Generator) -> Stay:
    """Show one image ``length`` times, as a stuck camera; what it then misses never comes.

    The moment is drawn. A stay that is shorter shows its first image all the time.

    Example:
        >>> from rotta.streams.plan import whole_domain
        >>> stay = whole_domain(visit=0, domain=0, severity=5, labels=np.arange(8) % 4)
        >>> freeze(stay, length=4, rng=np.random.default_rng(0)).indices.tolist()
        [0, 1, 2, 3, 4, 4, 4, 4]
    """
    positions, length = np.arange(len(stay)), min(length, len(stay))
    moment = rng.integers(max(1, len(stay) - length + 1))
    positions[moment : moment + length] = moment
    return stay.take(positions)


@dataclass(frozen=True)
class Terms:
    """What a stream lays down for its arrival.

    Attributes:
        num_classes: C.
        severity: The highest, 1 … 5.
        length: Samples of a burst or a freeze.
        imbalance: Of the largest class to the smallest.
    """

    num_classes: int
    severity: int
    length: int = 200
    imbalance: float = 100.0


@dataclass(frozen=True)
class Arrival:
    """One way for samples to arrive.

    Attributes:
        name: What to type.
        about: What to print.
        change: Turns a steady stay into one of this kind.
        size: How many samples with these labels are left.
        ramps: Whether the severity takes all values up to the stream's.
        mixes: Whether every stay is one of :func:`mixed` domains, so that there are no borders.
        takes: Which of :data:`PARAMETERS` change anything.
    """

    name: str
    about: str
    change: Callable[[Stay, Terms, np.random.Generator], Stay] = lambda stay, _terms, _rng: stay
    size: Callable[[Labels, Terms], int] = lambda labels, _terms: len(labels)
    ramps: bool = False
    mixes: bool = False
    takes: tuple[str, ...] = ()

    def given(self, **parameters: float | None) -> dict[str, Any]:
        """Those of :data:`PARAMETERS` that it takes and that were not left open.

        Example:
            >>> ARRIVALS["burst"].given(length=9, imbalance=2.0)
            {'length': 9}
        """
        return {
            name: value
            for name, value in parameters.items()
            if name in self.takes and value is not None
        }


PARAMETERS = ("length", "imbalance")
"""Those of :class:`Terms` that belong to some arrivals alone."""


ARRIVALS: dict[str, Arrival] = {
    arrival.name: arrival
    for arrival in (
        Arrival("steady", "every sample of a domain once, at one severity: the paper's"),
        Arrival(
            "gradual",
            "the severity climbs from 1 to --severity and back within each stay",
            change=lambda stay, terms, _rng: gradual(stay, terms.severity),
            ramps=True,
        ),
        Arrival("mixed", "samples of all domains interleaved, without borders", mixes=True),
        Arrival(
            "long-tail",
            "the first class comes --imbalance times as often as the last",
            change=lambda stay, terms, rng: long_tail(
                stay, terms.num_classes, terms.imbalance, rng
            ),
            size=lambda labels, terms: int(
                long_tail_sizes(labels, terms.num_classes, terms.imbalance).sum()
            ),
            takes=("imbalance",),
        ),
        Arrival(
            "burst",
            "once in each stay, --length samples of one class in a row",
            change=lambda stay, terms, rng: burst(stay, terms.length, rng),
            takes=("length",),
        ),
        Arrival(
            "freeze",
            "once in each stay, the same image --length times, as a stuck camera",
            change=lambda stay, terms, rng: freeze(stay, terms.length, rng),
            takes=("length",),
        ),
    )
}
"""The arrivals by name; ``steady`` is the paper's."""


def check_taken(arrivals: Sequence[Arrival], **parameters: float | None) -> None:
    """Refuse a parameter that would change nothing.

    Args:
        arrivals: At least one; it is enough if one of them takes it.
        parameters: Of :data:`PARAMETERS`; ``None`` for what was left open.

    Raises:
        ValueError: None of them takes it.

    Example:
        >>> check_taken([ARRIVALS["steady"], ARRIVALS["burst"]], length=9, imbalance=None)
        >>> check_taken([ARRIVALS["steady"]], length=9)
        Traceback (most recent call last):
        ...
        ValueError: length means nothing to arrival steady: leave it out, or choose burst or freeze
    """
    for name, value in parameters.items():
        if value is None or any(name in arrival.takes for arrival in arrivals):
            continue
        named = ", ".join(arrival.name for arrival in arrivals)
        takers = " or ".join(known.name for known in ARRIVALS.values() if name in known.takes)
        raise ValueError(
            f"{name} means nothing to arrival {named}: leave it out, or choose {takers}"
        )


def without_unused(described: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a stream, with its arrival, without what means nothing to that.

    Streams used to take any length and imbalance, and what was kept of them states those.

    Example:
        >>> without_unused({"arrival": "burst", "length": 9, "imbalance": 2.0, "seed": 0})
        {'arrival': 'burst', 'length': 9, 'seed': 0}
    """
    arrival = ARRIVALS.get(described.get("arrival", ""))
    unused = () if arrival is None else [name for name in PARAMETERS if name not in arrival.takes]
    return {name: value for name, value in described.items() if name not in unused}
