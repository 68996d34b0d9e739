"""What every method promises, on a GPU: with RoTTA's fast options too."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_methods import fingerprint, images, make, same, small_net, stream, walk
from torch import Tensor, nn

from rotta.adapters import METHODS, Adapter

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"graphs": False},
    "eager float16": {"graphs": False, "precision": "float16"},
    "float16": {"precision": "float16"},
    "bfloat16": {"precision": "bfloat16"},
}
"""By default it replays CUDA graphs in float32."""
VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in METHODS]
ROTTAS = ("rotta", "rotta-lasting")
VARIANTS += [(name, options) for name in ROTTAS for options in WAYS.values()]
VARIANTS += [("cotta", {"precision": "float16"})]
every_variant = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    """Convolutions that give the same bits again, in float32."""
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


def on_cuda(name: str, net: nn.Module | None = None, **options: Any) -> Adapter:
    return make(name, (net or small_net()).cuda().to(memory_format=torch.channels_last), **options)  # type: ignore[call-overload]


def batches(count: int = 12, size: int = 16) -> list[Tensor]:
    """An update after each, enough of them for everything to be recorded."""
    return [x.cuda() for x in stream(count, size)]


@every_variant
def test_reset_is_exact(name: str, options: dict[str, Any]) -> None:
    model = on_cuda(name, **options)
    start = fingerprint(on_cuda(name, **options).state_dict())
    first = walk(model, batches())
    model.reset()
    assert fingerprint(model.state_dict()) == start
    assert same(first, walk(model, batches()))


@every_variant
def test_a_state_continues_elsewhere(name: str, options: dict[str, Any]) -> None:
    model, other = on_cuda(name, **options), on_cuda(name, **options)
    walk(model, batches()[:7])
    walk(other, batches()[2:8])  # so that it has recorded something else
    other.load_state_dict(model.state_dict())
    for x in batches()[7:]:
        expected = model(x)
        assert torch.allclose(other(x), expected, atol=1e-4)


@every_variant
def test_predicting_alone_changes_nothing(name: str, options: dict[str, Any]) -> None:
    model = on_cuda(name, **options)
    for x in batches():
        before = fingerprint(model.state_dict())
        alone = model.predict(x)
        assert fingerprint(model.state_dict()) == before
        assert torch.equal(alone, model(x))


@every_variant
def test_an_answer_stays_as_it_was(name: str, options: dict[str, Any]) -> None:
    model = on_cuda(name, **options)
    for x in batches():
        given, kept = x.clone(), model(x)
        noted = kept.clone()
        model(batches(1)[0])
        assert torch.equal(kept, noted)
        assert torch.equal(x, given)


@every_variant
def test_a_bad_batch_is_refused_and_changes_nothing(name: str, options: dict[str, Any]) -> None:
    model = on_cuda(name, **options)
    walk(model, batches(6))
    before = fingerprint(model.state_dict())
    for value in (torch.nan, torch.inf):
        bad = batches(1)[0].clone()
        bad[3, 1, 2, 2] = value
        with pytest.raises(ValueError, match="NaN or infinite"):
            model(bad)
        assert fingerprint(model.state_dict()) == before
    with pytest.raises(ValueError, match="move one of them"):
        model(images(4))


@every_variant
def test_batches_of_any_size(name: str, options: dict[str, Any]) -> None:
    model = on_cuda(name, **options)
    for size in (1, 16, 3, 40, 16, 16, 16, 16, 7, 16):
        assert model(images(size).cuda()).isfinite().all()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "cotta"])
def test_it_predicts_as_on_a_cpu(name: str) -> None:
    """Alike to rounding at first; later as far as learning does not blow it up.

    CoTTA predicts by views whose noise is drawn on the device.
    """
    here, there = make(name), on_cuda(name)
    for step, x in enumerate(stream(4, 16)):
        expected, logits = here(x), there(x.cuda()).cpu()
        tolerance = 1e-3 if step < 2 else 5e-2
        assert torch.allclose(logits, expected, atol=tolerance), (
            step,
            (logits - expected).abs().max(),
        )


@pytest.mark.parametrize("name", ROTTAS)
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_all_ways_predict_alike(name: str, options: dict[str, Any]) -> None:
    usual, other = on_cuda(name), on_cuda(name, **options)
    exact = "precision" not in options
    for x in batches():
        expected, logits = usual(x), other(x)
        assert torch.allclose(logits, expected, atol=1e-4 if exact else 0.2)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_views_in_another_precision_say_the_same(precision: str) -> None:
    """CoTTA's, before anything was learnt: the student is in float32 in both."""
    usual, other = (on_cuda("cotta", confidence=1.0, precision=p) for p in ("float32", precision))
    expected, logits = (model.predict(batches()[0]) for model in (usual, other))
    assert logits.dtype == torch.float32
    assert torch.allclose(logits, expected, atol=0.1)
    assert not torch.equal(logits, expected)


@pytest.mark.parametrize("name", ROTTAS)
def test_a_steady_update_never_waits_for_the_device(name: str) -> None:
    for options in ({}, *WAYS.values()):
        model = on_cuda(name, **options)
        given = batches(20)
        for x in given[:10]:  # the bank is not full before, and asks how full it is
            model(x)
        fill(model)
        model(given[10])
        torch.cuda.set_sync_debug_mode("error")
        try:
            for x in given[11:]:
                model(x)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ROTTAS)
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_a_guard_that_looks_never_waits_for_the_device_either(
    name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And sees as a graph what it sees without."""
    from rotta.guard import guard

    monkeypatch.setattr(guard, "LOOK_EVERY", 2)
    monkeypatch.setattr(guard.Guard, "in_doubt", False)
    recorded, eager = (
        on_cuda(name, guard=True, graphs=graphs, precision=precision) for graphs in (True, False)
    )
    given = batches(30)
    for model in (recorded, eager):
        walk(model, given[:14])
        fill(model)
        model(given[14])
        torch.cuda.set_sync_debug_mode("error")
        try:
            walk(model, given[15:])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        model(given[0])
        assert model.events == []
    seen, expected = (model.get_extra_state()["_guard"]["_signals"] for model in (recorded, eager))
    assert seen == pytest.approx(expected, rel=0.2, abs=0.02)  # the reference is in bfloat16
    for own in ("gradient norm", "parameter distance", "statistics distance"):
        assert seen[own] == pytest.approx(
            expected[own], rel=0.01 if precision == "float32" else 0.2
        )
        assert seen[own] > 0


def test_what_a_guard_compares_with_is_as_precise_as_a_network_needs() -> None:
    """One whose code nobody knows may not bear another precision; one that is moved neither."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x)
            return logits

    x = batches(1)[0]
    known, unknown = on_cuda("rotta", guard=True), on_cuda("rotta", Own(), guard=True)
    assert not torch.equal(known.infer_unlearnt(x), known.predict(x))
    assert torch.allclose(unknown.infer_unlearnt(x), unknown.predict(x), atol=1e-5)
    walk(known, batches())
    known.cpu()
    walk(known, stream(14, 16))
    assert known.infer_unlearnt(x.cpu()).isfinite().all()
    known.cuda()
    walk(known, batches(14))


def test_what_a_guard_compares_with_says_the_same_in_half_the_precision() -> None:
    model, x = on_cuda("rotta", guard=True), batches(1, size=64)[0]
    exact, reference = model.predict(x), model.infer_unlearnt(x)
    assert reference.dtype == torch.float32
    assert torch.allclose(reference, exact, atol=0.1)
    assert not torch.equal(reference, exact)
    assert (reference.argmax(dim=1) == exact.argmax(dim=1)).float().mean() > 0.9
    in_double = on_cuda("rotta", small_net().double(), guard=True)
    assert torch.allclose(in_double.infer_unlearnt(x.double()), exact.double(), atol=1e-3)


@pytest.mark.parametrize("name", ROTTAS)
def test_what_was_recorded_before_the_first_update_does_not_outlive_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient that a guard sees is Adam's, which has none before."""
    from rotta.guard import guard

    monkeypatch.setattr(guard, "LOOK_EVERY", 1)
    model = on_cuda(name, guard=True, update_every=8 * 16)
    walk(model, batches(8))
    assert model.get_extra_state()["_guard"]["_signals"]["gradient norm"] == 0
    walk(model, batches(8))
    assert model.get_extra_state()["_guard"]["_signals"]["gradient norm"] > 0


def fill(model: Adapter) -> None:
    assert model.bank is not None
    label = torch.arange(64, device="cuda") % 10
    model.bank.insert(images(64).cuda(), label, torch.full((64,), 0.01, device="cuda"))
    assert len(model.bank) == model.bank.capacity


@pytest.mark.parametrize("name", ROTTAS)
def test_a_state_travels_between_devices(name: str) -> None:
    here, there = make(name), on_cuda(name)
    walk(here, stream(5, 16))
    there.load_state_dict(here.state_dict())
    x = images(16, seed=99)
    assert torch.allclose(there(x.cuda()).cpu(), here(x), atol=1e-3)
    here.load_state_dict(there.state_dict())
    assert here(x).isfinite().all()


@pytest.mark.parametrize("name", ROTTAS)
def test_a_copy_records_for_itself(name: str) -> None:
    model = on_cuda(name, **WAYS["float16"])
    walk(model, batches())
    twin = copy.deepcopy(model)
    for x in batches():
        assert torch.allclose(twin(x), model(x), atol=1e-4)


def test_a_network_that_cannot_be_recorded_runs_all_the_same() -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x * 2 if x.mean().item() > 2 else x)
            return logits

    model, plain = on_cuda("rotta", Asks()), on_cuda("rotta", Asks(), graphs=False)
    stream = torch.cuda.current_stream()
    with pytest.warns(UserWarning, match="cannot be replayed"):
        ours = walk(model, batches())
    assert torch.cuda.current_stream() == stream
    assert all(
        torch.allclose(a, b, atol=1e-4) for a, b in zip(ours, walk(plain, batches()), strict=True)
    )


def test_a_network_that_is_not_channels_last() -> None:
    ours, theirs = make("rotta", small_net().cuda(), graphs=False), on_cuda("rotta", graphs=False)
    for x in batches(4):
        assert torch.allclose(ours(x), theirs(x), atol=1e-2)


@every_variant
def test_after_a_periodic_reset_it_is_at_its_start(name: str, options: dict[str, Any]) -> None:
    """And what was recorded before is not replayed on tensors that are gone."""
    model = on_cuda(name, reset_every=8 * 16, **options)
    first = walk(model, batches(8))
    if name != "cotta":  # which predicts by views that it draws
        assert torch.allclose(model.predict(batches(1)[0]), first[0], atol=1e-4)
    assert all(logits.isfinite().all() for logits in walk(model, batches()))
