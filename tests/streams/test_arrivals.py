"""Each arrival keeps its word, and all keep those that every stream gives."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_dataset import MemoryDataset

from rotta.datasets.base import Labels
from rotta.streams import ARRIVALS, SETTINGS, Batch, Stream
from rotta.streams.arrivals import (
    Terms,
    burst,
    freeze,
    gradual,
    long_tail,
    long_tail_sizes,
    mixed,
)
from rotta.streams.plan import Stay, whole_domain

CORRUPTIONS = ("fog", "snow", "frost", "contrast")
SIZES = dict(zip(CORRUPTIONS, (230, 100, 310, 5), strict=True))

PAIRS = [
    (arrival, setting)
    for arrival in ARRIVALS
    for setting in SETTINGS
    if SETTINGS[setting].changing or not ARRIVALS[arrival].mixes
]
sizes_of_domains = st.lists(st.integers(0, 40), min_size=1, max_size=4)


def dataset_of(sizes: Iterable[int]) -> MemoryDataset:
    return MemoryDataset(dict(zip(CORRUPTIONS, sizes, strict=False)))


def stay_of(labels: Iterable[int]) -> Stay:
    return whole_domain(0, 0, 5, np.array(list(labels), dtype=np.int64))


def columns(batches: Iterable[Batch]) -> dict[str, list[int]]:
    batches = list(batches)
    names = ("y", "domain", "visit", "index")
    return {name: torch.cat([getattr(batch, name) for batch in batches]).tolist() for name in names}


def assert_same(actual: Iterable[Batch], expected: Iterable[Batch]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert (one.number, one.restart) == (other.number, other.restart)
        for name in ("x", "y", "domain", "visit", "index"):
            assert torch.equal(getattr(one, name), getattr(other, name))


# What every stream promises, whichever way its samples arrive


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("fully", "c3ef14a77ebf8eda"),
        ("continual", "452983cfce3501aa"),
        ("non-iid", "cf6c06a8c7ac954e"),
        ("ptta", "43b1f579786a6bb8"),
    ],
)
def test_the_steady_stream_is_what_it_was_before_there_were_others(
    setting: str, expected: str
) -> None:
    """Digests of the streams of the first release that had no arrivals."""
    dataset = MemoryDataset({"fog": 230, "snow": 100, "frost": 310})
    digest = hashlib.sha256()
    for batch in Stream(dataset, setting=setting, seed=5, visits=2):
        for column in (batch.y, batch.domain, batch.visit, batch.index):
            digest.update(column.numpy().tobytes())
    assert digest.hexdigest()[:16] == expected


@given(
    sizes=sizes_of_domains,
    pair=st.sampled_from(PAIRS),
    batch_size=st.integers(3, 50),
    length=st.integers(1, 60),
    imbalance=st.floats(1, 1000),
)
@settings(max_examples=60)
def test_a_stream_holds_what_it_announces(
    sizes: list[int], pair: tuple[str, str], batch_size: int, length: int, imbalance: float
) -> None:
    arrival, setting = pair
    stream = Stream(
        dataset_of(sizes),
        arrival=arrival,
        setting=setting,
        batch_size=batch_size,
        **ARRIVALS[arrival].given(length=length, imbalance=imbalance),
        visits=2,
        prefetch=0,
    )
    batches = list(stream)
    assert len(stream) == len(batches)
    assert stream.num_samples == sum(len(batch.y) for batch in batches)
    if not batches:
        return
    seen = columns(batches)
    timeline = stream.timeline()
    assert seen["y"] == timeline.labels.tolist()
    assert seen["domain"] == timeline.domains.tolist()
    per_visit = Counter(
        domain for domain, visit in zip(seen["domain"], seen["visit"], strict=True) if visit
    )
    assert [per_visit[d] for d in range(len(sizes))] == stream.domain_sizes()
    assert timeline.severities is not None
    pixels = torch.cat([batch.x for batch in batches]).mul(255).round().long()
    assert pixels[:, 0, 0, 0].tolist() == seen["index"]
    assert pixels[:, 1, 1, 0].tolist() == timeline.severities.tolist()
    assert pixels[:, 2, 1, 1].tolist() == seen["domain"]
    assert set(timeline.severities) <= set(stream.severities)


@pytest.mark.parametrize(("arrival", "setting"), PAIRS)
def test_every_arrival_resumes_at_every_batch(arrival: str, setting: str) -> None:
    dataset = dataset_of((23, 0, 40, 9))
    given = ARRIVALS[arrival].given(length=7)
    stream = Stream(dataset, arrival=arrival, setting=setting, visits=2, batch_size=6, **given)
    batches = list(stream)
    for number in range(len(batches) + 1):
        assert_same(stream.starting_at(number), batches[number:])


@pytest.mark.parametrize("arrival", sorted(ARRIVALS))
def test_seed_and_visit_change_a_stream_and_nothing_else_does(arrival: str) -> None:
    def drawn(seed: int = 0, batch_size: int = 64, prefetch: int = 0) -> dict[str, list[int]]:
        dataset = MemoryDataset(SIZES)
        return columns(
            Stream(
                dataset,
                arrival=arrival,
                visits=2,
                seed=seed,
                batch_size=batch_size,
                prefetch=prefetch,
            )
        )

    first = drawn()
    assert first == drawn() == drawn(batch_size=1) == drawn(batch_size=7, prefetch=2)
    assert first["index"] != drawn(seed=1)["index"]
    half = len(first["index"]) // 2
    assert first["visit"] == [0] * half + [1] * half
    assert first["index"][:half] != first["index"][half:]


def test_the_order_recurs_and_its_label_order_is_drawn_anew_each_time() -> None:
    stream = Stream(MemoryDataset(SIZES), visits=20, seed=3)
    stays = list(stream.plan())
    assert [int(stay.domains[0]) for stay in stays] == [0, 1, 2, 3] * 20
    assert [int(stay.visits[0]) for stay in stays] == np.repeat(np.arange(20), 4).tolist()
    for domain in range(3):  # the fourth has five samples, whose order may well recur
        orders = {tuple(stay.labels.tolist()) for stay in stays[domain::4]}
        assert len(orders) == 20


@pytest.mark.parametrize("arrival", ["gradual", "long-tail", "burst", "freeze"])
def test_streams_of_one_seed_differ_in_the_arrival_alone(arrival: str) -> None:
    dataset, given = MemoryDataset({"fog": 310}), ARRIVALS[arrival].given(length=20)
    steady, other = (
        np.array(columns(stream)["index"])
        for stream in (Stream(dataset), Stream(dataset, arrival=arrival, **given))
    )
    place = np.argsort(steady)
    backwards = np.count_nonzero(np.diff(place[other]) < 0)
    assert backwards <= (2 if arrival == "burst" else 0)


# What each of them promises


@given(size=st.integers(0, 200), peak=st.integers(1, 5))
def test_a_ramp_climbs_and_falls_by_single_steps(size: int, peak: int) -> None:
    steady = stay_of([0] * size)
    severities = gradual(steady, peak).severities
    assert severities.dtype == np.int64
    if size < 2 * peak - 1:
        assert set(severities) <= set(range(1, peak + 1))
        return
    levels = [*range(1, peak), *range(peak, 0, -1)]
    changes = np.flatnonzero(np.diff(severities)) + 1
    assert severities[np.concatenate([[0], changes])].tolist() == levels
    lengths = np.diff(np.concatenate([[0], changes, [size]]))
    assert np.ptp(lengths) <= 1


def test_a_gradual_stream_reaches_every_severity_in_every_stay() -> None:
    stream = Stream(MemoryDataset(SIZES), arrival="gradual", severity=3, visits=2)
    assert stream.severities == (1, 2, 3)
    for stay in stream.plan():
        assert (stay.severities[0], stay.severities.max(), stay.severities[-1]) == (1, 3, 1)
        np.testing.assert_array_equal(np.unique(stay.severities), [1, 2, 3])


def test_abrupt_streams_keep_one_severity() -> None:
    for arrival in set(ARRIVALS) - {"gradual"}:
        stream = Stream(MemoryDataset(SIZES), arrival=arrival, severity=4)
        assert stream.severities == (4,)
        assert {int(severity) for stay in stream.plan() for severity in stay.severities} == {4}


@given(sizes=sizes_of_domains, seed=st.integers(0, 2**32))
def test_mixing_deals_every_sample_out_once(sizes: list[int], seed: int) -> None:
    wholes = [whole_domain(0, d, 5, np.zeros(size, np.int64)) for d, size in enumerate(sizes)]
    stays = [mixed(wholes, d, np.random.default_rng(seed)) for d in range(len(sizes))]
    assert [len(stay) for stay in stays] == sizes
    dealt = Stay.joined(stays)
    expected = Counter((d, index) for d, size in enumerate(sizes) for index in range(size))
    assert Counter(zip(dealt.domains.tolist(), dealt.indices.tolist(), strict=True)) == expected


@pytest.mark.parametrize("delta", [0.1, math.inf])
def test_mixed_domains_have_no_borders(delta: float) -> None:
    dataset = MemoryDataset(dict.fromkeys(CORRUPTIONS, 250))
    stream = Stream(dataset, arrival="mixed", delta=delta, visits=2, batch_size=100)
    for batch in stream:
        # 25 of each are expected; the standard deviation is 4.3
        assert np.bincount(batch.domain, minlength=4).min() >= 8
    seen = columns(stream)
    times = Counter(zip(seen["visit"], seen["domain"], seen["index"], strict=True))
    assert set(times.values()) == {1}
    assert len(times) == 2000


def test_each_visit_mixes_anew() -> None:
    stream = Stream(MemoryDataset(SIZES), arrival="mixed", visits=5, seed=2)
    first_stays = list(stream.plan())[:: len(SIZES)]
    held = {
        frozenset(zip(stay.domains.tolist(), stay.indices.tolist(), strict=True))
        for stay in first_stays
    }
    assert len(held) == 5


def test_mixed_domains_are_as_correlated_as_others() -> None:
    dataset = MemoryDataset(dict.fromkeys(CORRUPTIONS, 500), num_classes=10)
    changes = {
        arrival: np.mean(
            [
                np.count_nonzero(np.diff(Stream(dataset, arrival=arrival, seed=seed).labels()))
                for seed in range(10)
            ]
        )
        for arrival in ("steady", "mixed")
    }
    assert changes["mixed"] == pytest.approx(changes["steady"], rel=0.15)


@given(
    labels=st.lists(st.integers(0, 5), max_size=300),
    imbalance=st.floats(1, 1e6),
    seed=st.integers(0, 2**32),
)
def test_a_long_tail_is_a_part_of_the_stay_in_its_order(
    labels: list[int], imbalance: float, seed: int
) -> None:
    steady = stay_of(labels)
    thinned = long_tail(steady, 6, imbalance, np.random.default_rng(seed))
    assert np.all(np.diff(thinned.indices) > 0)
    before, after = (np.bincount(each.labels, minlength=6) for each in (steady, thinned))
    share = imbalance ** (-np.arange(6) / 5)
    assert after.tolist() == long_tail_sizes(steady.labels, 6, imbalance).tolist()
    assert after[0] == before[0]
    assert np.all((after > 0) == (before > 0))
    assert np.all(np.abs(after - share * before) <= np.where(share * before < 0.5, 1, 0.5))


@pytest.mark.parametrize("imbalance", [1.0, 10.0, 100.0])
def test_the_long_tail_of_a_whole_stream_has_the_stated_factor(imbalance: float) -> None:
    class Balanced(MemoryDataset):
        def labels_of(self, name: str) -> Labels:
            return np.arange(self.sizes[name]) % self.num_classes

    dataset = Balanced(dict.fromkeys(CORRUPTIONS, 2000), num_classes=10)
    stream = Stream(dataset, arrival="long-tail", imbalance=imbalance, visits=2)
    counts = np.bincount(stream.labels(), minlength=10)
    assert counts[0] == 200 * 4 * 2
    assert counts[0] / counts[-1] == pytest.approx(imbalance)
    if imbalance > 1:
        steps = counts[:-1] / counts[1:]  # a straight line in logarithms, up to rounding
        np.testing.assert_allclose(steps, imbalance ** (1 / 9), rtol=0.2)
    else:
        assert stream.num_samples == 2 * 4 * 2000


def test_a_long_tail_of_one_class_is_the_whole() -> None:
    assert long_tail_sizes(np.zeros(7, np.int64), 1, 100.0).tolist() == [7]


@given(
    labels=st.lists(st.integers(0, 5), max_size=200),
    length=st.integers(1, 100),
    seed=st.integers(0, 2**32),
)
def test_a_burst_moves_samples_of_one_class_together(
    labels: list[int], length: int, seed: int
) -> None:
    steady = stay_of(labels)
    order = burst(steady, length, np.random.default_rng(seed)).indices
    np.testing.assert_array_equal(np.sort(order), np.arange(len(labels)))
    if not labels:
        return
    runs = np.split(order, np.flatnonzero(np.diff(steady.labels[order])) + 1)
    sizes = np.bincount(steady.labels)
    longest = {int(steady.labels[run[0]]): len(run) for run in sorted(runs, key=len)}
    assert any(longest[label] >= min(length, sizes[label]) for label in longest)


def test_bursts_come_anywhere_and_of_any_class() -> None:
    steady = stay_of(np.arange(400) % 4)
    labels, moments = set(), []
    for seed in range(60):
        arrived = burst(steady, 50, np.random.default_rng(seed)).labels
        runs = np.split(arrived, np.flatnonzero(np.diff(arrived)) + 1)
        place = int(np.argmax([len(run) for run in runs]))
        assert 50 <= len(runs[place]) <= 52  # with a neighbour of the same class on either side
        labels.add(int(runs[place][0]))
        moments.append(sum(len(run) for run in runs[:place]))
    assert labels == {0, 1, 2, 3}
    assert min(moments) < 60
    assert max(moments) > 290


@given(
    size=st.integers(0, 200),
    length=st.integers(1, 250) | st.just(2**63),
    seed=st.integers(0, 2**32),
)
def test_a_freeze_shows_one_image_again_and_again(size: int, length: int, seed: int) -> None:
    order = freeze(stay_of([0] * size), length, np.random.default_rng(seed)).indices
    assert len(order) == size
    times = Counter(order.tolist())
    held = min(length, size)
    assert sorted(times.values()) == sorted([held] * (held > 0) + [1] * (size - held))
    seen = [index for place, index in enumerate(order) if place == 0 or index != order[place - 1]]
    assert seen == sorted(times)


def test_a_frozen_stream_repeats_the_bytes() -> None:
    stream = Stream(MemoryDataset({"fog": 300}), arrival="freeze", length=90, batch_size=32)
    images = torch.cat([batch.x for batch in stream]).flatten(1)
    same = (images[1:] == images[:-1]).all(dim=1)
    assert int(same.sum()) == 89
    first = int(same.nonzero()[0])
    assert bool(same[first : first + 89].all())
    assert len({image.numpy().tobytes() for image in images}) == 300 - 89


def test_what_is_left_out_is_that_of_the_documentation() -> None:
    for arrival in ARRIVALS:
        stream = Stream(MemoryDataset(SIZES), arrival=arrival)
        assert (stream.length, stream.imbalance) == (200, 100.0)


@pytest.mark.parametrize("arrival", sorted(ARRIVALS))
def test_an_arrival_takes_exactly_what_changes_it(arrival: str) -> None:
    row, labels = ARRIVALS[arrival], np.arange(100) % 5
    for name, value in (("length", 9), ("imbalance", 3.0)):
        seen = [
            row.change(stay_of(labels), terms, np.random.default_rng(0)).indices.tolist()
            for terms in (Terms(5, 5), Terms(5, 5, **{name: value}))  # type: ignore[arg-type]
        ]
        assert (seen[0] != seen[1]) == (name in row.takes)


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arrival": "brust"}, "unknown arrival 'brust': did you mean 'burst'"),
        ({"arrival": "burst", "length": 0}, "length must be 1 or more"),
        ({"arrival": "long-tail", "imbalance": 0.5}, "imbalance must be 1 or more"),
        ({"arrival": "long-tail", "imbalance": math.nan}, "imbalance must be 1 or more"),
        ({"length": 200}, "length means nothing to arrival steady: leave it out, or choose burst"),
        ({"arrival": "long-tail", "length": 9}, "length means nothing to arrival long-tail"),
        ({"arrival": "freeze", "imbalance": 100.0}, "leave it out, or choose long-tail"),
        ({"arrival": "mixed", "setting": "fully"}, "choose setting continual or ptta"),
        ({"arrival": "mixed", "setting": "non-iid"}, "choose setting continual or ptta"),
    ],
)
def test_mistaken_arrivals_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(MemoryDataset(SIZES), **arguments)  # type: ignore[arg-type]


def test_a_ramp_needs_corruptions() -> None:
    with pytest.raises(ValueError, match=r"has none \(its domains: photo, sketch\)"):
        Stream(MemoryDataset({"photo": 3, "sketch": 4}), arrival="gradual")
