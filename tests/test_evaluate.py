"""The loop, the counts and the record of a run."""

import json
from pathlib import Path

import pytest
import torch

import rotta
from rotta.adapters import Source
from rotta.metrics import ErrorByDomain
from rotta.results import MethodResult, Result, provenance
from rotta.stopwatch import Stopwatch


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))


def digits_stream(**options: object) -> rotta.Stream:
    dataset = rotta.load_dataset("digits-c", limit=40)
    return rotta.Stream(dataset, order=("fog", "snow"), batch_size=7, **options)  # type: ignore[arg-type]


def test_every_sample_is_scored_in_its_domain() -> None:
    stream = digits_stream()
    method = Source(rotta.load_source("digits"))
    errors = ErrorByDomain(stream.domains)
    wrong = dict.fromkeys(stream.domains, 0)
    for step in rotta.evaluate(method, stream):
        errors.add(step)
        for domain, is_wrong in zip(step.batch.domain, step.wrong, strict=True):
            wrong[stream.domains[int(domain)]] += int(is_wrong)
    assert errors.per_domain() == {name: 100 * n / 40 for name, n in wrong.items()}
    assert errors.average() == pytest.approx(sum(errors.per_domain().values()) / 2)
    assert wrong["fog"] > wrong["snow"] > 0


def test_a_method_sees_images_only() -> None:
    seen: list[tuple[torch.Size, torch.dtype]] = []

    def method(x: torch.Tensor) -> torch.Tensor:
        seen.append((x.shape, x.dtype))
        return torch.zeros(len(x), 10)

    assert sum(len(step.predicted) for step in rotta.evaluate(method, digits_stream())) == 80
    assert set(seen) == {((7, 3, 32, 32), torch.float32), ((3, 3, 32, 32), torch.float32)}


def test_domains_not_reached_are_left_out() -> None:
    errors = ErrorByDomain(("fog", "snow"))
    assert errors.per_domain() == {}
    first = next(rotta.evaluate(Source(rotta.load_source("digits")), digits_stream()))
    errors.add(first)
    assert list(errors.per_domain()) == ["fog"]


def test_source_changes_nothing() -> None:
    net = rotta.load_source("digits").train()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    method = Source(net)
    for _ in rotta.evaluate(method, digits_stream()):
        pass
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())
    assert not net.training


def test_the_record_of_a_run_is_complete_json(tmp_path: Path) -> None:
    scored = MethodResult(12.5, {"fog": 12.5}, 3.0)
    Result({"source": scored}, {"seeds": [0]}, provenance("cpu", {"file": "md5"})).save(
        tmp_path / "result.json"
    )
    read = json.loads((tmp_path / "result.json").read_text())
    assert read["methods"]["source"] == {
        "average_error": 12.5,
        "per_domain": {"fog": 12.5},
        "ms_per_batch": 3.0,
    }
    assert read["config"] == {"seeds": [0]}
    assert {"time", "versions", "device", "commit", "data"} <= set(read["provenance"])


def test_the_stopwatch_passes_results_through() -> None:
    timed = Stopwatch(lambda x: x * 2)
    assert timed(torch.tensor([3.0])).item() == 6
    assert timed.median_ms() >= 0
