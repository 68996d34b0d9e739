import math
import threading
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_dataset import MemoryDataset, MemoryImages

from rotta.datasets import load_dataset
from rotta.datasets.base import Indices
from rotta.streams import ORDERS, PAPER_ORDER, SETTINGS, Batch, Stream

SIZES = {"fog": 23, "snow": 10, "frost": 31}


def column(batches: Iterable[Batch], name: str) -> list[int]:
    return torch.cat([getattr(batch, name) for batch in batches]).tolist()


def samples(batches: Iterable[Batch]) -> list[tuple[int, int, int]]:
    batches = list(batches)
    return list(zip(*(column(batches, name) for name in ("visit", "domain", "index")), strict=True))


def assert_same(actual: Iterable[Batch], expected: Iterable[Batch]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert (one.number, one.restart) == (other.number, other.restart)
        for name in ("x", "y", "domain", "visit", "index"):
            torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    setting=st.sampled_from(sorted(SETTINGS)),
    delta=st.sampled_from([0.001, 0.1, 10.0, math.inf]),
    visits=st.integers(1, 3),
    batch_size=st.integers(1, 50),
    prefetch=st.integers(0, 2),
)
@settings(max_examples=60)
def test_each_sample_once_per_visit_and_as_announced(
    sizes: list[int], setting: str, delta: float, visits: int, batch_size: int, prefetch: int
) -> None:
    dataset = MemoryDataset({f"domain{i}": size for i, size in enumerate(sizes)})
    stream = Stream(
        dataset,
        setting=setting,
        delta=delta,
        visits=visits,
        batch_size=batch_size,
        prefetch=prefetch,
    )
    batches = list(stream)

    assert len(stream) == len(batches)
    assert [batch.number for batch in batches] == list(range(len(batches)))
    assert all(0 < len(batch.y) <= batch_size for batch in batches)
    assert stream.num_samples == visits * sum(sizes) == sum(len(b.y) for b in batches)
    expected = Counter(
        (visit, domain, index)
        for visit in range(visits)
        for domain, size in enumerate(sizes)
        for index in range(size)
    )
    if batches:
        assert Counter(samples(batches)) == expected
        assert column(batches, "domain") == stream.timeline().domains.tolist()
        assert column(batches, "y") == stream.labels().tolist()


@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    setting=st.sampled_from(sorted(SETTINGS)),
    visits=st.integers(1, 2),
    batch_size=st.integers(1, 30),
)
@settings(max_examples=40)
def test_resumes_at_every_batch(
    sizes: list[int], setting: str, visits: int, batch_size: int
) -> None:
    dataset = MemoryDataset({f"domain{i}": size for i, size in enumerate(sizes)})
    stream = Stream(dataset, setting=setting, visits=visits, batch_size=batch_size, prefetch=0)
    batches = list(stream)
    for number in range(len(batches) + 1):
        assert_same(stream.starting_at(number), batches[number:])
    for number in (-1, len(batches) + 1):
        with pytest.raises(ValueError, match="batch"):
            stream.starting_at(number)


def test_batches_hold_the_images_they_name() -> None:
    stream = Stream(MemoryDataset(SIZES), order=("frost", "fog"), batch_size=16)
    image_sets = [MemoryDataset(SIZES).domain(name) for name in stream.domains]
    for batch in stream:
        assert batch.x.dtype == torch.float32
        assert {t.dtype for t in (batch.y, batch.domain, batch.visit, batch.index)} == {torch.int64}
        for x, y, domain, index in zip(batch.x, batch.y, batch.domain, batch.index, strict=True):
            image_set = image_sets[int(domain)]
            expected = image_set.images(np.array([int(index)]))[0].to(torch.float32) / 255
            assert torch.equal(x, expected)
            assert y == image_set.labels[int(index)]
    assert all(float(batch.x.max()) <= 1 for batch in stream)


def test_every_iteration_is_the_same_with_or_without_a_thread() -> None:
    stream = Stream(MemoryDataset(SIZES), batch_size=7, seed=3)
    again = Stream(MemoryDataset(SIZES), batch_size=7, seed=3, prefetch=0)
    assert_same(stream, stream)
    assert_same(stream, again)


@pytest.mark.parametrize("setting", sorted(SETTINGS))
def test_seeds_differ(setting: str) -> None:
    orders = [
        column(Stream(MemoryDataset(SIZES), setting=setting, seed=seed), "index")
        for seed in range(4)
    ]
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("setting", sorted(SETTINGS))
def test_batch_size_does_not_change_the_order(setting: str) -> None:
    first, *others = (
        samples(Stream(MemoryDataset(SIZES), setting=setting, batch_size=size))
        for size in (1, 7, 64)
    )
    assert all(other == first for other in others)


def test_the_draw_of_a_domain_does_not_depend_on_the_others() -> None:
    sizes = dict.fromkeys(PAPER_ORDER, 20)
    draws = []
    for order in (None, 0, 7, ["fog"]):
        stream = Stream(MemoryDataset(sizes), order=order, seed=5)
        place = stream.domains.index("fog")
        draws.append([stay.indices.tolist() for stay in stream.plan() if place in stay.domains])
    assert draws.count(draws[0]) == len(draws)


def test_domains_and_visits_are_drawn_anew() -> None:
    stream = Stream(MemoryDataset({"fog": 40, "snow": 40}), setting="continual", visits=3)
    draws = {tuple(stay.indices.tolist()) for stay in stream.plan()}
    assert len(draws) == 6


def test_rows_of_the_paper() -> None:
    dataset = MemoryDataset(dict.fromkeys(PAPER_ORDER, 1))
    assert Stream(dataset).domains == PAPER_ORDER
    assert Stream(dataset, order=8).domains == ORDERS[8]


def test_changing_settings_run_across_borders() -> None:
    batches = list(Stream(MemoryDataset(SIZES), setting="ptta", batch_size=16))
    assert [len(batch.y) for batch in batches] == [16, 16, 16, 16]
    assert [sorted(set(batch.domain.tolist())) for batch in batches] == [[0], [0, 1], [1, 2], [2]]
    assert not any(batch.restart for batch in batches)


def test_a_batch_may_hold_more_than_two_domains() -> None:
    [batch] = Stream(MemoryDataset({"a": 2, "b": 1, "c": 0, "d": 3}), visits=2, batch_size=20)
    assert batch.domain.tolist() == [0, 0, 1, 3, 3, 3] * 2
    assert batch.visit.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("setting", ["fully", "non-iid"])
def test_stationary_settings_restart_with_each_domain(setting: str) -> None:
    stream = Stream(MemoryDataset(SIZES), setting=setting, batch_size=16, visits=2)
    batches = list(stream)
    assert [len(batch.y) for batch in batches] == [16, 7, 10, 16, 15] * 2
    assert [batch.restart for batch in batches] == [True, False, True, True, False] * 2
    assert all(len(set(batch.domain.tolist())) == 1 for batch in batches)


def test_the_last_batch_is_kept_however_short() -> None:
    lengths = [len(batch.y) for batch in Stream(MemoryDataset({"fog": 65}))]
    assert lengths == [64, 1]


def test_independent_settings_ignore_delta() -> None:
    dataset = MemoryDataset({"fog": 100})
    plans = [
        next(Stream(dataset, setting=setting, delta=delta).plan()).indices.tolist()
        for setting, delta in [("continual", 0.01), ("fully", 0.1), ("ptta", math.inf)]
    ]
    assert plans.count(plans[0]) == 3
    assert Stream(dataset, setting="fully", delta=0.1).delta == math.inf
    assert Stream(dataset, setting="non-iid", delta=0.1).delta == 0.1


def test_severity_reaches_the_dataset_and_nothing_else() -> None:
    dataset = MemoryDataset(SIZES)
    mild, strong = (Stream(dataset, severity=severity) for severity in (1, 5))
    np.testing.assert_array_equal(mild.labels(), strong.labels())
    assert {severity for _, severity in dataset.opened} == {1, 5}


def test_planning_reads_no_image() -> None:
    dataset = MemoryDataset(SIZES)
    stream = Stream(dataset)
    image_sets = [stream._open._image_set(domain, 5) for domain in range(len(SIZES))]
    stream.timeline()
    assert len(stream) == 1
    assert all(isinstance(s, MemoryImages) and s.reads == 0 for s in image_sets)


def test_domains_are_opened_when_reached_and_only_once() -> None:
    dataset = MemoryDataset(SIZES)
    stream = Stream(dataset, batch_size=5, prefetch=0, visits=2)
    assert dataset.opened == []
    batches = iter(stream)
    next(batches)
    assert dataset.opened == [("fog", 5)]
    list(batches)
    assert dataset.opened == [("fog", 5), ("snow", 5), ("frost", 5)]


def test_a_long_stream_is_planned_as_it_goes() -> None:
    stream = Stream(MemoryDataset(SIZES), visits=10**9, batch_size=64)
    assert stream.num_samples == len(stream) * 64 == 64 * 10**9
    batches = stream.starting_at(1000)
    assert next(batches).visit.tolist() == [1000] * 64
    assert next(batches).number == 1001


def test_two_iterations_at_once() -> None:
    stream = Stream(MemoryDataset(SIZES), batch_size=5, prefetch=1)
    pairs = list(zip(stream, stream, strict=True))
    assert_same([one for one, _ in pairs], [other for _, other in pairs])


def test_an_abandoned_iteration_leaves_no_thread() -> None:
    before = threading.active_count()
    for batch in Stream(MemoryDataset(SIZES), batch_size=1):
        assert threading.active_count() == before + 1
        if batch.number == 3:
            break
    assert threading.active_count() == before


class BrokenImages(MemoryImages):
    def images(self, indices: Indices) -> torch.Tensor:
        raise OSError(f"cannot read image {indices[0]}")


class BrokenDataset(MemoryDataset):
    def domain(self, name: str, severity: int = 5) -> MemoryImages:
        whole = super().domain(name, severity)
        return BrokenImages(whole.labels, whole.tag) if name == "snow" else whole


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_dataset_that_fails_is_heard(prefetch: int) -> None:
    batches = iter(Stream(BrokenDataset(SIZES), batch_size=23, prefetch=prefetch))
    assert len(next(batches).y) == 23
    with pytest.raises(OSError, match="cannot read image") as caught:
        next(batches)
    assert "images" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"setting": "pttta"}, "unknown setting 'pttta': did you mean 'ptta'"),
        ({"order": ["fgo"]}, "unknown domain 'fgo': did you mean 'fog'"),
        ({"order": 12}, "order 12 does not exist"),
        ({"order": 5}, "this dataset has no motion_blur"),
        ({"delta": 0}, "delta must be greater than 0"),
        ({"delta": math.nan, "setting": "fully"}, "delta must be greater than 0"),
        ({"batch_size": 0}, "batch_size must be 1 or more"),
        ({"visits": 0}, "visits must be 1 or more"),
        ({"severity": 6}, "severity must be 1, 2, 3, 4 or 5, not 6"),
        ({"severity": 0}, "severity must be"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"prefetch": -1}, "prefetch must be 0 or more"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stream(MemoryDataset(SIZES), **arguments)  # type: ignore[arg-type]


def test_streams_over_the_built_in_digits() -> None:
    digits = load_dataset("digits")
    stream = Stream(digits, delta=0.01, batch_size=64)
    first = next(iter(stream))
    assert first.x.shape == (64, 3, 32, 32)
    assert 0 <= float(first.x.min()) < float(first.x.max()) <= 1
    assert sorted(stream.labels()) == sorted(digits.domain(digits.domains[0]).labels)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_bytes_are_the_same_on_every_device() -> None:
    dataset = MemoryDataset({"fog": 2000})
    for here, there in zip(Stream(dataset), Stream(dataset, device="cuda"), strict=True):
        assert there.x.device.type == there.y.device.type == "cuda"
        assert torch.equal(here.x, there.x.cpu())
