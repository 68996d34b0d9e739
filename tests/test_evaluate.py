"""The loop, and the stopwatch around a method."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import rotta
from rotta.adapters import Source
from rotta.datasets.base import Dataset
from rotta.stopwatch import Stopwatch


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=40)


def digits_stream(**options: object) -> rotta.Stream:
    return rotta.Stream(digits(), order=("fog", "snow"), batch_size=7, **options)  # type: ignore[arg-type]


class CountsResets:
    """Answers at random; notes how many batches it saw between resets."""

    def __init__(self) -> None:
        self.batches_per_episode: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.batches_per_episode[-1] += 1
        return torch.zeros(len(x), 10)

    def reset(self) -> None:
        self.batches_per_episode.append(0)


def test_a_step_has_the_prediction_and_whether_it_is_wrong() -> None:
    net = rotta.load_source("digits")
    for step in rotta.evaluate(Source(net, 10), digits_stream()):
        assert step.logits.shape == (len(step.batch.y), 10)
        assert torch.equal(step.predicted, step.logits.argmax(dim=1))
        assert torch.equal(step.wrong, step.predicted != step.batch.y)


def test_a_method_sees_images_only() -> None:
    seen: list[tuple[torch.Size, torch.dtype]] = []

    def method(x: torch.Tensor) -> torch.Tensor:
        seen.append((x.shape, x.dtype))
        return torch.zeros(len(x), 10)

    assert sum(len(step.predicted) for step in rotta.evaluate(method, digits_stream())) == 80
    assert set(seen) == {((7, 3, 32, 32), torch.float32), ((3, 3, 32, 32), torch.float32)}


def test_a_bare_network_keeps_no_history() -> None:
    net = rotta.load_source("digits")
    step = next(rotta.evaluate(net, digits_stream(setting="fully")))
    assert not step.logits.requires_grad


@pytest.mark.parametrize(
    ("setting", "episodes"), [("fully", [6, 6, 6, 6]), ("non-iid", [6, 6, 6, 6])]
)
def test_every_episode_of_a_stationary_setting_begins_with_a_reset(
    setting: str, episodes: list[int]
) -> None:
    method = CountsResets()
    for _ in rotta.evaluate(method, digits_stream(setting=setting, visits=2)):
        pass
    assert method.batches_per_episode == episodes


@pytest.mark.parametrize("setting", ["continual", "ptta"])
def test_changing_settings_never_reset(setting: str) -> None:
    method = CountsResets()
    method.reset()  # as a user may, before the first batch
    for _ in rotta.evaluate(method, digits_stream(setting=setting)):
        pass
    assert method.batches_per_episode == [12]


def test_rotta_meets_every_episode_as_if_it_were_the_first() -> None:
    stream = digits_stream(setting="non-iid")
    net = rotta.load_source("digits")
    model = rotta.RoTTA(net, 10, capacity=8, update_every=8)
    together = [step.logits for step in rotta.evaluate(model, stream)]
    alone = []
    for domain in stream.domains:
        episode = rotta.Stream(digits(), setting="non-iid", order=(domain,), batch_size=7)
        fresh = rotta.RoTTA(net, 10, capacity=8, update_every=8)
        alone += [step.logits for step in rotta.evaluate(fresh, episode)]
        assert fresh.updates == 5
    assert all(torch.equal(a, b) for a, b in zip(together, alone, strict=True))


def test_source_changes_nothing() -> None:
    net = rotta.load_source("digits").train()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    for _ in rotta.evaluate(Source(net, 10), digits_stream()):
        pass
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())


def test_the_stopwatch_passes_results_and_resets_through() -> None:
    method = CountsResets()
    timed = Stopwatch(method)
    timed.reset()
    assert timed(torch.ones(3, 1)).shape == (3, 10)
    assert method.batches_per_episode == [1]
    assert timed.mean_ms() >= 0
    Stopwatch(torch.neg).reset()
