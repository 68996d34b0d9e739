"""What every method promises, whichever it is: a method in the table is tested here."""

import gc
import inspect
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from small_methods import (
    EVERY,
    SEEDED,
    fingerprint,
    images,
    make,
    same,
    small_net,
    stream,
    tiny_net,
    usual,
    walk,
)
from torch import Tensor, nn

import rotta
from rotta.adapters import METHODS, Adapter
from rotta.adapters.common import defaults_of
from rotta.adapters.input_check import BadInputError
from rotta.adapters.logits import logits_of
from rotta.models import build

every_method = pytest.mark.parametrize("name", METHODS)
WITH_A_BANK = ("note", "rotta", "rotta-lasting")


class InPlace(nn.Module):
    """Scales colours, without or with a second place in memory."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.net = tiny_net()

    def forward(self, x: Tensor) -> Tensor:
        x = x.sub_(0.5).div_(0.25) if self.in_place else (x - 0.5) / 0.25
        logits: Tensor = self.net(x)
        return logits


# Going back and going on


@every_method
def test_reset_is_exact(name: str) -> None:
    model = make(name)
    first = walk(model, stream())
    start = fingerprint(make(name).state_dict())
    model.reset()  # one sample after an update
    assert fingerprint(model.state_dict()) == start
    assert same(first, walk(model, stream()))


def test_a_saved_state_continues_in_another_process(tmp_path: Path) -> None:
    for name in METHODS:
        model = make(name)
        walk(model, stream()[:3])  # 21 samples: between two updates
        torch.save(model.state_dict(), tmp_path / f"{name}.pt")
    program = Path(__file__).with_name("continue_stream.py")
    threads = str(torch.get_num_threads())
    subprocess.run([sys.executable, program, tmp_path, threads], check=True)
    for name in METHODS:
        continued = torch.load(tmp_path / f"{name}-predictions.pt", weights_only=True)
        assert same(usual(name)[3:], continued), name


@every_method
def test_a_state_handed_over_is_not_shared(name: str) -> None:
    """Both go on from the same state, in turns, as if the other were not there."""
    model, other = make(name), make(name)
    expected = usual(name)[3:]
    walk(model, stream()[:3])
    other.load_state_dict(model.state_dict())
    for x, logits in zip(stream()[3:], expected, strict=True):
        assert torch.equal(model(x), logits)
        assert torch.equal(other(x), logits)


@every_method
def test_reset_after_loading_returns_to_the_start(name: str) -> None:
    """The start is the source model, not what was loaded."""
    model, other = make(name), make(name)
    walk(model, stream())
    other.load_state_dict(model.state_dict())
    other.reset()
    assert same(walk(other, stream()), usual(name))


@every_method
def test_predicting_alone_tells_what_comes_and_changes_nothing(name: str) -> None:
    model = make(name)
    for x in stream():
        before = fingerprint(model.state_dict())
        alone = model.predict(x)
        assert fingerprint(model.state_dict()) == before
        assert not alone.requires_grad
        assert torch.equal(alone, model(x))


@every_method
def test_predicting_alone_refuses_a_bad_batch(name: str) -> None:
    with pytest.raises(ValueError, match="NaN"):
        make(name).predict(torch.full_like(images(4), torch.nan))


@every_method
def test_the_same_seed_gives_the_same_predictions(name: str) -> None:
    torch.manual_seed(torch.initial_seed() + 1)  # the global random state does not matter
    assert same(usual(name), walk(make(name), stream()))


@pytest.mark.parametrize("name", SEEDED)
def test_another_seed_gives_others(name: str) -> None:
    assert not same(walk(make(name), stream(10)), walk(make(name, seed=1), stream(10)))


@pytest.mark.parametrize("name", SEEDED)
def test_dropout_does_not_draw_from_the_global_random_state(name: str) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5), nn.Flatten(), nn.Linear(1568, 10)
    )
    first = walk(make(name, net), stream())
    torch.manual_seed(2)
    assert same(first, walk(make(name, net), stream()))


# Batches of any size


@every_method
def test_a_last_batch_of_any_size(name: str) -> None:
    model = make(name)
    for size in (7, 7, 3, 1):
        logits = model(images(size, size))
        assert logits.shape == (size, 10)
        assert logits.isfinite().all()


@every_method
def test_one_sample_at_a_time_from_the_first_on(name: str) -> None:
    model = make(name)
    for x in stream(EVERY + 2, size=1):
        logits = model(x)
        assert logits.shape == (1, 10)
        assert logits.isfinite().all()
    assert all(t.isfinite().all() for t in model.parameters())


@pytest.mark.parametrize("name", WITH_A_BANK)
def test_updates_depend_on_samples_not_on_batches(name: str) -> None:
    x = images(2 * 64)
    for size in (1, 7, 64):
        model = make(name, tiny_net())
        walk(model, list(torch.split(x, size)))
        first_of_adam = model.get_extra_state()["optimiser"]["state"][0]
        assert first_of_adam["step"] == len(x) // EVERY


# What belongs to the caller


@every_method
def test_the_input_stays_as_it_was(name: str) -> None:
    x = images(2 * EVERY)
    before = x.clone()
    make(name)(x).zero_()  # nor does the answer share its memory
    assert torch.equal(x, before)


@every_method
def test_the_answer_is_the_callers(name: str) -> None:
    model = make(name)
    for x, expected in zip(stream(), usual(name), strict=True):
        logits = model(x)
        assert torch.equal(logits, expected)
        assert not logits.requires_grad
        logits.fill_(torch.nan)


@every_method
@pytest.mark.parametrize("training", [True, False])
def test_the_network_stays_as_it_was(name: str, training: bool) -> None:
    net = small_net().train(training)
    frozen = next(net.parameters()).requires_grad_(False)
    before = fingerprint(net.state_dict())
    modules = list(net.modules())
    model = make(name, net)
    walk(model, stream())
    assert model.detach() is net
    assert net.training is training
    assert fingerprint(net.state_dict()) == before
    assert list(net.modules()) == modules
    assert all(p.requires_grad is (p is not frozen) for p in net.parameters())
    assert all(p.grad is None for p in net.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    model.reset()
    assert fingerprint(net.state_dict()) == before


@every_method
def test_the_networks_mode_does_not_matter(name: str) -> None:
    assert same(usual(name), walk(make(name, small_net().train()), stream()))


@every_method
@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_method_does_not_matter(name: str, training: bool) -> None:
    """`model.eval()` and `model.train()` are reflexes; they say nothing about adapting."""
    assert same(usual(name), walk(make(name).train(training), stream()))


@every_method
@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_gradient_mode_does_not_matter(
    name: str, switch: Callable[[], AbstractContextManager[None]]
) -> None:
    model = make(name)
    with switch():
        inside = walk(model, stream())
    assert same(usual(name), inside)


@every_method
def test_inference_mode_may_begin_and_end_anywhere(name: str) -> None:
    """Whatever is built, loaded or reset within can be used without."""
    net, expected = small_net(), usual(name)
    with torch.inference_mode():
        model = make(name, net)
        within = walk(model, stream()[:3])
    assert same(expected, within + walk(model, stream()[3:]))
    with torch.inference_mode():
        model.reset()
    assert same(expected, walk(model, stream()))
    loaded = make(name)
    with torch.inference_mode():
        loaded.load_state_dict(model.state_dict())
    assert same(walk(model, stream()), walk(loaded, stream()))


# What cannot be used


NAN, INF = torch.full((2, 3, 16, 16), torch.nan), torch.full((2, 3, 16, 16), -torch.inf)
BAD_BATCHES: dict[str, tuple[Any, str]] = {
    "nan": (NAN, "NaN or infinite"),
    "infinite": (INF, "NaN or infinite"),
    "three axes": (torch.zeros(3, 16, 16), r"\(B, C, H, W\)"),
    "not a tensor": (NAN.numpy(), r"\(B, C, H, W\)"),
    "empty": (torch.zeros(0, 3, 16, 16), "empty"),
    "double": (torch.zeros(2, 3, 16, 16, dtype=torch.float64), r"x\.to\(torch\.float32\)"),
    "bytes": (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), r"x\.to\(torch\.float32\) / 255"),
    "half": (torch.zeros(2, 3, 16, 16, dtype=torch.float16), r"x\.to\(torch\.float32\)"),
    "elsewhere": (torch.zeros(2, 3, 16, 16, device="meta"), "move one of them"),
    "other size": (torch.zeros(2, 3, 20, 20), "resize them"),
}


@every_method
def test_a_bad_batch_is_refused_and_changes_nothing(name: str) -> None:
    model = make(name)
    walk(model, stream()[:3])
    before = fingerprint(model.state_dict())
    for batch, message in BAD_BATCHES.values():
        with pytest.raises(ValueError, match=message):
            model(batch)
        assert fingerprint(model.state_dict()) == before
    assert same(walk(model, stream()[3:]), usual(name)[3:])


@every_method
def test_a_bad_first_batch_changes_nothing(name: str) -> None:
    model = make(name)
    before = fingerprint(model.state_dict())
    for kind, (batch, message) in BAD_BATCHES.items():
        if kind != "other size":
            with pytest.raises(ValueError, match=message):
                model(batch)
    assert fingerprint(model.state_dict()) == before
    assert same(walk(model, stream()), usual(name))


@every_method
def test_a_size_that_the_network_cannot_take_is_not_remembered(name: str) -> None:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 14 * 14, 10)
    model, usual = make(name, nn.Sequential(*layers)), make(name, nn.Sequential(*layers))
    before = fingerprint(model.state_dict())
    refused = [images(2, side=20), images(2, channels=1), images(2, channels=4), images(2, side=1)]
    for x in refused:
        for call in (model, model.predict):
            with pytest.raises(
                ValueError, match=rf"take images of shape \({x.shape[1]}, "
            ) as caught:
                call(x)
            assert ("x.expand(-1, 3, -1, -1)" in str(caught.value)) == (x.shape[1] == 1)
            assert isinstance(caught.value.__cause__, RuntimeError)
            assert str(caught.value.__cause__) in str(caught.value)
    assert fingerprint(model.state_dict()) == before
    assert same(walk(model, stream()), walk(usual, stream()))


class Fussy(nn.Module):
    """A network that raises by itself, while it shall."""

    error: ClassVar[Exception | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.net = tiny_net()

    def forward(self, x: Tensor) -> Tensor:
        if self.error is not None:
            raise self.error
        logits: Tensor = self.net(x)
        return logits


@every_method
@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (AssertionError("Input height (16) doesn't match model (224)"), BadInputError),
        (ValueError("Input image size (16*16) doesn't match model (224*224)."), BadInputError),
        (RuntimeError("expected input to have 3 channels, but got 1"), BadInputError),
        # these have nothing to do with the images
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError),
        (RuntimeError("Tried to allocate workspace of size 1"), RuntimeError),
        (
            RuntimeError("view size is not compatible with input tensor's size and stride"),
            RuntimeError,
        ),
        (ValueError("Expected more than 1 value per channel when training"), ValueError),
        (torch.OutOfMemoryError("no room for sizes like that"), torch.OutOfMemoryError),
        (NotImplementedError("no kernel for this shape"), NotImplementedError),
        (KeyError("channels"), KeyError),
    ],
    ids=repr,
)
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_what_a_network_raises_first_is_told_apart(
    name: str,
    error: Exception,
    becomes: type[Exception],
    policy: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, usual = (make(name, Fussy(), bad_input=policy) for _ in range(2))
    before = fingerprint(model.state_dict())
    x = images(4)
    x[1, 0, 0, 0] = torch.nan
    monkeypatch.setattr(Fussy, "error", error)
    if becomes is BadInputError and policy == "skip":
        with pytest.warns(UserWarning, match="skipped: the network does not") as told:
            assert model.predict(x).isnan().all()
        assert str(error) in str(told[0].message)
        assert fingerprint(model.state_dict()) == before
        assert model(x).isnan().all()
        assert {reason: n for reason, n in model.skipped.items() if n} == {"shape": 1}
        model.skipped["shape"] = 0
    else:
        with pytest.raises(becomes) as caught:
            model(x)
        assert type(caught.value) is becomes
        assert error in (caught.value, caught.value.__cause__)
    assert fingerprint(model.state_dict()) == before
    monkeypatch.setattr(Fussy, "error", None)
    assert same(walk(model, stream()), walk(usual, stream()))
    monkeypatch.setattr(Fussy, "error", error)
    with pytest.raises(type(error)) as later:  # by now the size is known to be right
        model(stream()[0])
    assert later.value is error


@every_method
def test_after_reset_the_size_may_be_another(name: str) -> None:
    model = make(name)
    walk(model, stream())
    model.reset()
    assert model(images(2 * EVERY, side=20)).shape == (2 * EVERY, 10)


@pytest.mark.parametrize("name", WITH_A_BANK)
def test_a_loaded_bank_knows_its_size(name: str) -> None:
    model, other = make(name), make(name)
    walk(model, stream())
    other.load_state_dict(model.state_dict())
    before = fingerprint(other.state_dict())
    with pytest.raises(ValueError, match="resize them"):
        other(images(2, side=20))
    assert fingerprint(other.state_dict()) == before


@every_method
@pytest.mark.parametrize("num_classes", [7, 11])
def test_a_wrong_number_of_classes_is_refused(name: str, num_classes: int) -> None:
    with pytest.raises(ValueError, match=r"num_classes=10|correct num_classes"):
        _meet_wrong_classes(METHODS[name], num_classes)


def _meet_wrong_classes(kind: type[Adapter], num_classes: int) -> None:
    """Some methods see it in the network, others in its first answer."""
    model = kind(small_net(), num_classes)
    before = fingerprint(model.state_dict())
    try:
        model(images(4))
    finally:
        assert fingerprint(model.state_dict()) == before


@every_method
def test_no_classes_at_all_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="num_classes must be 1 or more"):
        METHODS[name](small_net(), 0)


@every_method
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(name: str, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"net\.float\(\)"):
        make(name, small_net().to(dtype))


COUNTS = ("capacity", "update_every", "passes", "passes_at_once")


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name, kind in METHODS.items()
        for option in kind.__init__.__kwdefaults__ or {}
        if option in COUNTS
    ],
)
def test_a_count_of_nothing_is_refused(name: str, option: str) -> None:
    options: dict[str, Any] = {option: 0}
    with pytest.raises(ValueError, match=option):
        make(name, **options)


# Networks of many kinds


@every_method
def test_logits_may_come_in_an_object(name: str) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.net(x))

    assert same(walk(make(name, Wrapped()), stream()), usual(name))


def test_a_network_without_logits_is_told_so() -> None:
    for output in ({"scores": images(2)}, images(2), images(2).flatten()):
        with pytest.raises(ValueError, match="must return logits"):
            logits_of(output)


@every_method
def test_double_precision(name: str) -> None:
    model = make(name, small_net().double())
    for x in stream():
        logits = model(x.double())
        assert logits.dtype == torch.float64
        assert logits.isfinite().all()


@every_method
def test_what_was_learnt_moves_to_another_precision(name: str) -> None:
    """On the way: an optimiser's moments must come along."""
    model = make(name)
    walk(model, stream()[:5])
    model.double()
    for x, usual_logits in zip(stream()[5:], usual(name)[5:], strict=True):
        # CoTTA draws other noise in another dtype
        assert torch.allclose(model(x.double()), usual_logits.double(), atol=5e-2)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "batch norm after flatten": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(768, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10)
    ),
    "synchronised batch norm": lambda: nn.SyncBatchNorm.convert_sync_batchnorm(tiny_net()),  # type: ignore[no-untyped-call]
    "batch norm without γ and β": lambda: nn.Sequential(
        nn.BatchNorm2d(3, affine=False), nn.Flatten(), nn.Linear(768, 10)
    ),
    "a layer used twice": lambda: nn.Sequential(*[nn.BatchNorm2d(3)] * 2, *tiny_net()),
    "channels last": lambda: small_net().to(memory_format=torch.channels_last),  # type: ignore[call-overload]
}


@every_method
@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_with_batch_norm(name: str, kind: str) -> None:
    model = make(name, NETWORKS[kind]())
    first = walk(model, stream() + stream(2, size=1))
    assert all(logits.isfinite().all() for logits in first)
    model.reset()
    assert same(first, walk(model, stream() + stream(2, size=1)))


class CallsItsLayers(nn.Module):
    """As some networks do, by the name that PyTorch gives a layer's argument."""

    def __init__(self, by_name: bool) -> None:
        super().__init__()
        self.layers = tiny_net()
        self.by_name = by_name

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(input=x) if self.by_name else layer(x)
        return x


@every_method
def test_layers_can_be_called_by_the_name_of_their_argument(name: str) -> None:
    by_name, by_place = (walk(make(name, CallsItsLayers(by)), stream()) for by in (True, False))
    assert same(by_name, by_place)


def group_norm_net() -> nn.Module:
    layers = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 10))


@every_method
@pytest.mark.parametrize(
    "net",
    [group_norm_net(), nn.Sequential(nn.Flatten(), nn.Linear(768, 10))],
    ids=["group norm", "no norm"],
)
def test_networks_without_batch_norm_work_or_are_told_what_to_do(name: str, net: nn.Module) -> None:
    try:
        model = make(name, net)
    except ValueError as error:
        assert "use method='lame'" in str(error) or "pass robust_norm=False" in str(error)  # noqa: PT017 (either outcome is right)
    else:
        assert all(logits.isfinite().all() for logits in walk(model, stream()))


@every_method
def test_networks_without_running_statistics_work_or_are_told_why(name: str) -> None:
    norm = nn.BatchNorm2d(3, track_running_stats=False)
    try:
        model = make(name, nn.Sequential(norm, nn.Flatten(), nn.Linear(768, 10)))
    except ValueError as error:
        assert "track_running_stats=False" in str(error)  # noqa: PT017 (either outcome is right)
    else:
        assert all(logits.isfinite().all() for logits in walk(model, stream()))


@every_method
def test_grey_images_work_or_are_refused_at_once(name: str) -> None:
    """Not at the first update, when the bank has changed."""
    model = make(name, tiny_net(channels=1))
    before = fingerprint(model.state_dict())
    try:
        model(images(4, channels=1))
    except ValueError as error:
        assert "RGB" in str(error)  # noqa: PT017 (either outcome is right)
        assert fingerprint(model.state_dict()) == before
    else:
        walk(model, [images(EVERY, channels=1)] * 2)


# By name


@every_method
def test_what_is_no_network_or_no_more_is_refused(name: str) -> None:
    model: Any = make(name)
    with pytest.raises(ValueError, match=r"already: pass the one in it, net.detach\(\)"):
        rotta.adapt(model, name, num_classes=10)
    others: list[Any] = ["resnet50", model.state_dict(), small_net]
    for other in others:
        with pytest.raises(ValueError, match=r"must be an nn\.Module"):
            rotta.adapt(other, name, num_classes=10)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tent", {"guard": "false"}, "guard must be True or False, got 'false'"),
        ("tent", {"guard": 1}, "guard must be True or False, got 1"),
        ("rotta", {"alpha": "0.1"}, "alpha must be a number, got '0.1'"),
        ("rotta", {"nu": True}, "nu must be a number, got True"),
        ("rotta", {"precision": 16}, "precision must be a string, got 16"),
    ],
)
def test_options_of_another_type_are_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(name, **options)


@every_method
def test_help_shows_all_options(name: str) -> None:
    parameters = inspect.signature(METHODS[name]).parameters
    assert list(parameters)[:2] == ["net", "num_classes"]
    defaults = {key: p.default for key, p in list(parameters.items())[2:]}
    assert defaults == defaults_of(METHODS[name])


@every_method
def test_the_number_of_classes_is_found_out(name: str) -> None:
    model = rotta.adapt(tiny_net(num_classes=6), method=name)
    assert type(model) is METHODS[name]
    assert model.num_classes == 6
    assert model(images(3)).shape == (3, 6)


def test_a_network_without_a_linear_layer_needs_the_number() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 6, 16), nn.Flatten())
    with pytest.raises(ValueError, match="pass num_classes"):
        rotta.adapt(net, method="bn")
    assert rotta.adapt(net, method="bn", num_classes=6)(images(3)).shape == (3, 6)


@every_method
def test_a_mistyped_method_is_corrected(name: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean .*'{name}'.* Available: "):
        rotta.adapt(tiny_net(), method=name + "x")


@every_method
def test_a_mistyped_option_is_corrected(name: str) -> None:
    for option in METHODS[name].__init__.__kwdefaults__ or {}:
        with pytest.raises(ValueError, match=f"option of {name} .*did you mean .*'{option}'"):
            rotta.adapt(tiny_net(), method=name, **{option + "s": 1})
    with pytest.raises(ValueError, match=f"unknown option of {name} 'xyzzy'"):
        rotta.adapt(tiny_net(), method=name, xyzzy=1)


# Streams without end


@every_method
@pytest.mark.parametrize(
    "batches", [500, pytest.param(10_000, marks=pytest.mark.slow)], ids=["500", "10,000"]
)
def test_memory_is_bounded(name: str, batches: int) -> None:
    options: dict[str, Any] = {"passes": 1} if name == "cotta" else {}
    model = make(name, tiny_net(), **options)
    x = images(1, side=4)
    half = batches // 2
    for _ in range(half):
        model(x)
    state, objects, blocks = _bytes_of(model), _live_objects(), sys.getallocatedblocks()
    for _ in range(half):
        model(x)
    assert _bytes_of(model) == state
    # an object kept at each update, or a mere number at each batch, would be more
    assert _live_objects() - objects < half / EVERY / 2
    assert sys.getallocatedblocks() - blocks < half
    # and no graph of past batches hangs on what is kept
    assert all(t.is_leaf for t in [*model.parameters(), *model.buffers()])


def _live_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def _bytes_of(model: Adapter) -> int:
    return sum(t.nbytes for t in _tensors_in(model.state_dict()))


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, dict | list | tuple)
    return [t for item in items for t in _tensors_in(item)] if nested else []


# States that do not belong


@every_method
def test_the_state_of_another_network_is_refused_and_nothing_changes(name: str) -> None:
    net, other = small_net(), build("wrn-10-1", 10, seed=99)
    weights = fingerprint(net.state_dict())
    model, foreign = make(name, net), make(name, other)
    walk(model, stream()[:3])
    walk(foreign, stream()[:2])
    before = fingerprint(model.state_dict())
    with pytest.raises(ValueError, match="another network"):
        model.load_state_dict(foreign.state_dict())
    assert fingerprint(model.state_dict()) == before
    assert fingerprint(net.state_dict()) == weights


@pytest.mark.parametrize("name", WITH_A_BANK)
def test_the_state_of_another_bank_is_refused_and_nothing_changes(name: str) -> None:
    model, larger = make(name), make(name, capacity=24)
    walk(model, stream()[:3])
    walk(larger, stream()[:3])
    before = fingerprint(model.state_dict())
    with pytest.raises(ValueError, match="the same method with the same options"):
        model.load_state_dict(larger.state_dict())
    assert fingerprint(model.state_dict()) == before


@every_method
def test_the_state_of_another_method_is_refused(name: str) -> None:
    model = make(name)
    before = fingerprint(model.state_dict())
    for other in set(METHODS) - {name}:
        with pytest.raises(ValueError, match="the same method with the same options"):
            model.load_state_dict(make(other).state_dict())
    with pytest.raises(ValueError, match="as a whole"):
        model.load_state_dict(model.state_dict(), assign=True)
    assert fingerprint(model.state_dict()) == before


@every_method
def test_autocast_makes_no_difference(name: str) -> None:
    model = make(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = walk(model, stream())
    assert same(usual(name), inside)


@every_method
def test_a_method_in_half_precision_is_refused(name: str) -> None:
    model = make(name).bfloat16()
    with pytest.raises(ValueError, match=r"\.float\(\)"):
        model(images(4, 0).bfloat16())


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if kind.AUGMENTS])
@pytest.mark.parametrize("scale", [255.0, 4.0])
def test_images_that_are_no_colours_are_refused_where_they_are_augmented(
    name: str, scale: float
) -> None:
    model = make(name)
    before = fingerprint(model.state_dict())
    with pytest.raises(ValueError, match="normalisation"):
        model(images(4, 0) * scale - scale / 3)
    assert fingerprint(model.state_dict()) == before
    model(images(4, 0) * 1.2 - 0.1)  # what resizing may leave


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rotta", {"alpha": 5.0}),
        ("rotta", {"nu": -0.1}),
        ("rotta", {"lambda_t": float("nan")}),
        ("cotta", {"restore": 2.0}),
        ("cotta", {"teacher_momentum": 3.0}),
        ("note", {"momentum": 5.0}),
        ("lame", {"neighbours": -2}),
        ("tent", {"lr": -1.0}),
    ],
)
def test_a_knob_out_of_range_is_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make(name, **options)


# Networks that cannot be followed


class Unlisted(nn.Module):
    """Keeps its layers in a plain list too, which a copy of the module tree does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3 * 16 * 16, 10)
        self.steps = [self.bn, nn.Flatten(), self.fc]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


@pytest.mark.parametrize("name", ["pl", "tent", "note", "rotta"])
def test_layers_that_are_reached_past_the_tree_are_not_ignored(name: str) -> None:
    model = make(name, Unlisted())
    with pytest.raises(ValueError, match="Hold them as submodules"):
        walk(model, stream())


@every_method
def test_rows_that_are_missing_are_noticed(name: str) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x)[::2]
            return logits

    with pytest.raises(ValueError, match="rows of logits"):
        make(name, Half())(images(6, 0))


@every_method
def test_networks_that_cannot_be_used_are_refused(name: str) -> None:
    scripted = torch.jit.script(tiny_net())
    with pytest.raises(ValueError, match="before scripting"):
        make(name, scripted)
    with torch.inference_mode():
        frozen = small_net()
    with pytest.raises(ValueError, match="build it outside"):
        make(name, frozen)


@every_method
def test_the_default_dtype_does_not_matter(name: str) -> None:
    net, batches = small_net(), stream()
    torch.set_default_dtype(torch.float64)
    try:
        within = walk(make(name, net), batches)
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(usual(name), within)


@pytest.mark.parametrize(
    ("name", "options"),
    [("rotta", {"alpha": 0.1}), ("rotta", {"robust_training": False}), ("tent", {"lr": 0.5})],
)
def test_the_state_of_other_options_is_refused(name: str, options: dict[str, Any]) -> None:
    model, other = make(name), make(name, **options)
    before = fingerprint(model.state_dict())
    with pytest.raises(ValueError, match="same options: "):
        model.load_state_dict(other.state_dict())
    assert fingerprint(model.state_dict()) == before
    assert "All keys matched" in str(model.load_state_dict(make(name).state_dict()))


# Networks that do what others do not


@every_method
@pytest.mark.parametrize("guard", [False, True])
def test_a_network_may_work_in_place_on_its_images(name: str, guard: bool) -> None:
    """They are the caller's, and those in the bank are seen again."""
    model, other = (make(name, InPlace(way).eval(), guard=guard) for way in (True, False))
    for x in stream():
        given = x.clone()
        assert torch.equal(model.predict(given), other.predict(x))
        assert torch.equal(model(given), other(x))
        assert torch.equal(given, x)


@every_method
def test_a_network_may_begin_to_work_in_place_later(name: str) -> None:
    """One batch of the caller's is written into, and no more."""

    class Clamps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny_net()

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x.mul_(0.5) if x[0, 0, 0, 0] > 0.5 else x)
            return logits

    dark, bright = torch.full((4, 3, 16, 16), 0.2), torch.full((4, 3, 16, 16), 0.9)
    model = make(name, Clamps().eval())
    model(dark)
    model(bright.clone())
    given = bright.clone()
    model(given)
    assert torch.equal(given, bright)


@every_method
def test_a_network_may_hold_numbers_that_share_a_place(name: str) -> None:
    net = small_net()
    net.register_buffer("fifths", torch.ones(1).expand(5))
    model = make(name, net)
    first = walk(model, stream())
    model.reset()
    assert same(first, walk(model, stream()))


@every_method
def test_what_would_overflow_is_refused(name: str) -> None:
    model, x = make(name), images(4)
    model(x)
    before = fingerprint(model.state_dict())
    for huge in (1e10, -1e10, 1e38):
        bad = x.clone()
        bad[1, 0, 2, 2] = huge
        with pytest.raises(BadInputError, match=r"images lie in") as refused:
            model(bad)
        assert refused.value.reason == "range"
        assert fingerprint(model.state_dict()) == before


@every_method
def test_what_would_overflow_is_not_learnt_from(name: str) -> None:
    model, plain = (make(name, bad_input="skip") for _ in range(2))
    x = images(4)
    x[1] = 1e38
    model(x)
    plain(x[[0, 2, 3]])
    assert model.skipped["range"] == 1
    for good in stream():
        assert torch.equal(model(good), plain(good))
