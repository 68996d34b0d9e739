"""A method that is saved and loaded goes on as if it had never stopped, whichever it is."""

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

sys.path.append(str(Path(__file__).parent / "adapters"))

from small_methods import SEEDED, fingerprint, images, make, same, small_net, stream, usual, walk

import rotta
from rotta.adapters import METHODS, method_state
from rotta.adapters.adam import adam
from rotta.adapters.learnt import Learnt
from rotta.models import build
from rotta.state_file import read_state, write_state

every_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@every_method
@pytest.mark.parametrize("batches", [0, 3, 5])
def test_it_goes_on_bit_by_bit(name: str, batches: int, file: Path) -> None:
    """Before the first batch, between two updates, and after several."""
    model = make(name)
    walk(model, stream()[:batches])
    rotta.save(model, file)
    net = small_net()
    weights = fingerprint(net.state_dict())
    loaded = rotta.load(file, net)
    assert type(loaded) is METHODS[name]
    assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
    assert same(walk(loaded, stream()[batches:]), usual(name)[batches:])
    assert fingerprint(net.state_dict()) == weights
    loaded.reset()
    assert same(walk(loaded, stream()), usual(name))


@every_method
def test_saving_changes_nothing_and_many_savings_lead_on(name: str, file: Path) -> None:
    model = make(name)
    predicted = []
    for x in stream():
        predicted.append(model(x))
        before = fingerprint(model.state_dict())
        rotta.save(model, file)
        assert fingerprint(model.state_dict()) == before
        model = rotta.load(file, small_net())
    assert same(predicted, usual(name))


@pytest.mark.parametrize("name", SEEDED)
def test_reset_after_loading_has_the_seed_of_then(name: str, file: Path) -> None:
    model = make(name, seed=5)
    expected = walk(model, stream())
    rotta.save(model, file)
    loaded = rotta.load(file, small_net())
    loaded.reset()
    assert same(walk(loaded, stream()), expected)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_given_when_loading_outlives_the_next_break(name: str, file: Path) -> None:
    model = make(name)
    walk(model, stream()[:3])
    rotta.save(model, file)
    unbroken = rotta.load(file, small_net(), seed=5)
    rotta.save(unbroken, file)
    loaded = rotta.load(file, small_net())
    assert same(walk(loaded, stream()[3:]), walk(unbroken, stream()[3:]))
    rotta.save(loaded, file)  # and the one after that
    of_five = walk(make(name, seed=5), stream())
    for each in (unbroken, loaded, rotta.load(file, small_net())):
        each.reset()
        assert same(walk(each, stream()), of_five)


def test_options_are_those_of_then(file: Path) -> None:
    """Also those that a method keeps only as what it made of them."""
    model = make("cotta", passes=3, passes_at_once=1, restore=0.5, bad_input="skip")
    rotta.save(model, file)
    loaded = rotta.load(file, small_net())
    assert isinstance(loaded, rotta.CoTTA)
    assert (loaded.passes, loaded.passes_at_once, loaded.restore) == (3, 1, 0.5)
    assert loaded.bad_input == "skip"
    assert loaded.built == model.built
    assert rotta.load(file, small_net(), passes_at_once=3, seed=1).passes_at_once == 3
    with pytest.raises(ValueError, match=r"option of cotta that may change 'passes'.*seed"):
        rotta.load(file, small_net(), passes=2)


def test_the_number_of_classes_may_have_come_by_name(file: Path) -> None:
    rotta.save(rotta.TENT(small_net(), num_classes=10, lr=0.5), file)
    assert rotta.load(file, small_net()).num_classes == 10


@pytest.mark.parametrize("guard", [False, True])
def test_a_poor_stream_leaves_its_traces_in_the_file(guard: bool, file: Path) -> None:
    model = make("rotta", bad_input="skip", guard=guard)
    walk(model, stream()[:3])
    bad = images(4)
    bad[0] = torch.nan
    model(bad)
    rotta.save(model, file)
    loaded = rotta.load(file, small_net())
    assert loaded.skipped == model.skipped
    assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
    assert same(walk(loaded, stream()[3:]), walk(model, stream()[3:]))


def harmed(name: str = "tent", **options: Any) -> rotta.Adapter:
    """With a guard that has acted, and a lower rate therefore."""
    model = make(name, guard=True, **options)
    walk(model, stream()[:3])
    with torch.no_grad():
        for weight in Learnt(model).parameters()[0]:
            weight.fill_(torch.nan)
    walk(model, stream()[3:5])
    assert [event["action"] for event in model.events] == ["reset"]
    return model


def rates(model: rotta.Adapter) -> list[float]:
    return [group["lr"] for group in model.get_extra_state()["optimiser"]["param_groups"]]


@pytest.mark.parametrize("name", ["tent", "rotta"])
def test_a_guard_may_be_switched_off(name: str, file: Path) -> None:
    model = harmed(name)
    rotta.save(model, file)
    as_it_was, without = rotta.load(file, small_net()), rotta.load(file, small_net(), guard=False)
    assert as_it_was.events == model.events
    assert rates(as_it_was) == rates(model) == [pytest.approx(rate / 10) for rate in rates(without)]
    assert rates(without) == rates(make(name))
    assert without.events == []
    assert without.built == make(name).built
    assert torch.equal(without.predict(images(4)), model.predict(images(4)))
    without.reset()
    assert same(walk(without, stream()), usual(name))


@every_method
def test_a_guard_may_be_switched_on(name: str, file: Path) -> None:
    model = make(name)
    walk(model, stream()[:3])
    rotta.save(model, file)
    loaded = rotta.load(file, small_net(), guard=True)
    fresh = make(name, guard=True)
    assert fingerprint(loaded.get_extra_state()["_guard"]) == fingerprint(
        fresh.get_extra_state()["_guard"]
    )
    assert loaded.built == fresh.built
    assert same(walk(loaded, stream()[3:]), usual(name)[3:])  # it has seen nothing wrong
    rotta.save(loaded, file)
    again = rotta.load(file, small_net())  # and is part of the state from now on
    assert fingerprint(again.state_dict()) == fingerprint(loaded.state_dict())


def test_a_guard_that_was_switched_on_works(file: Path) -> None:
    model = make("rotta")
    walk(model, stream()[:3])
    rotta.save(model, file)
    loaded = rotta.load(file, small_net(), guard=True)
    with torch.no_grad():
        for weight in Learnt(loaded).parameters()[0]:
            weight.fill_(torch.nan)
    walk(loaded, stream()[3:])
    assert [event["cause"] for event in loaded.events] == ["not finite"]


def test_the_policy_for_bad_input_may_change(file: Path) -> None:
    bad = torch.full_like(images(4), torch.nan)
    rotta.save(make("tent"), file)
    assert rotta.load(file, small_net(), bad_input="skip")(bad).isnan().all()
    with pytest.raises(ValueError, match="NaN"):
        rotta.load(file, small_net())(bad)
    with pytest.raises(ValueError, match="bad_input must be one of raise, skip"):
        rotta.load(file, small_net(), bad_input="ignore")


def test_the_file_holds_what_changes_and_little_else(file: Path) -> None:
    net = build("wrn-28-10", 10, seed=0)
    model = rotta.adapt(net, "rotta")
    model(torch.rand(1, 3, 32, 32))
    rotta.save(model, file)
    assert sum(p.numel() for p in net.parameters()) * 4 > 140e6
    assert file.stat().st_size < 2e6


def test_a_network_in_another_layout_goes_on_with_moments_in_its_own(file: Path) -> None:
    """A fused optimiser walks through memory: mixed layouts would pair wrong numbers."""
    model = make("cotta", small_net().to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    walk(model, stream()[:3])
    rotta.save(model, file)
    plain = rotta.load(file, small_net())
    last = rotta.load(file, small_net().to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    for loaded in (last, plain):
        assert isinstance(loaded, rotta.CoTTA)
        assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
        for p, moments in loaded.optimiser.state.items():
            assert moments["exp_avg"].stride() == p.stride()
    assert same(walk(last, stream()[3:]), walk(model, stream()[3:]))


def test_a_plain_state_of_another_layout_goes_on_too() -> None:
    """As ``torch.save`` and ``torch.load`` would bring it, without :func:`rotta.load`."""
    model = make("cotta")
    last = make("cotta", small_net().to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    walk(model, stream()[:3])
    last.load_state_dict(model.state_dict())
    assert isinstance(last, rotta.CoTTA)
    moments = {p: state["exp_avg"] for p, state in last.optimiser.state.items()}
    assert any(p.stride() != p.contiguous().stride() for p in moments)
    assert all(moment.stride() == p.stride() for p, moment in moments.items())
    for x in stream()[3:]:
        assert torch.allclose(last(x), model(x), atol=1e-4)


def test_what_that_guards_against_is_real() -> None:
    p = nn.Parameter(torch.arange(36.0).view(2, 3, 2, 3).to(memory_format=torch.channels_last))
    twin = nn.Parameter(p.detach().clone())
    for parameter, laid_out in ((p, False), (twin, True)):
        optimiser = adam([parameter], lr=1.0)
        for _ in range(2):
            parameter.grad = parameter.detach().square()
            optimiser.step()
            moments = optimiser.state[parameter]
            moments["exp_avg"] = moments["exp_avg"].contiguous()
            if laid_out:
                method_state._lay_out_as_the_parameters(optimiser)
    assert not torch.equal(p, twin)


# Files that do not belong


@every_method
def test_another_network_is_refused(name: str, file: Path) -> None:
    rotta.save(make(name), file)
    other = build("wrn-10-1", 10, seed=99)
    before = fingerprint(other.state_dict())
    with pytest.raises(ValueError, match=r"another network .* load the weights of that time"):
        rotta.load(file, other)
    assert fingerprint(other.state_dict()) == before
    with pytest.raises(ValueError, match="another network"):
        rotta.load(file, build("resnet-18", 10))


class Unlisted(rotta.Source):
    """Not in the table of methods."""


@every_method
@pytest.mark.parametrize("by", ["file", "state"])
def test_a_network_in_double_precision_goes_on_bit_by_bit(name: str, by: str, file: Path) -> None:
    model, batches = make(name, small_net().double()), [x.double() for x in stream()]
    walk(model, batches[:3])
    if by == "file":
        rotta.save(model, file)
        loaded = rotta.load(file, small_net().double())
    else:
        loaded = make(name, small_net().double())
        loaded.load_state_dict(model.state_dict())
    assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
    assert same(walk(loaded, batches[3:]), walk(model, batches[3:]))


@every_method
@pytest.mark.parametrize("guard", [None, True])
def test_a_method_that_was_converted_goes_on_converted(
    name: str, guard: bool | None, file: Path
) -> None:
    """Around the network as it was, which nobody has converted."""
    net, batches = small_net(), [x.double() for x in stream()]
    model = make(name, net)
    walk(model, stream()[:3])
    model.double()
    walk(model, batches[3:5])
    rotta.save(model, file)
    weights = fingerprint(net.state_dict())
    loaded = rotta.load(file, net, guard=guard)
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}
    if guard is None:
        assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
    assert same(walk(loaded, batches[5:]), walk(model, batches[5:]))
    for each in (loaded, model):
        each.reset()
    assert same(walk(loaded, batches), walk(model, batches))
    assert fingerprint(net.state_dict()) == weights
    with pytest.raises(ValueError, match=r"with this network in torch\.float32.*net\.to\(torch"):
        rotta.load(file, small_net().double())


def test_a_method_that_was_converted_in_part_is_refused(file: Path) -> None:
    model = make("cotta")
    next(model.parameters()).data = next(model.parameters()).data.double()
    rotta.save(model, file)
    with pytest.raises(ValueError, match=r"several precisions.*convert the method as a whole"):
        rotta.load(file, small_net())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rotta", {"alpha": np.float32(0.5)}),
        ("rotta", {"lr": torch.tensor(0.5)}),
        ("note", {"k": np.float32(1)}),
        ("tent", {"guard": np.bool_(True)}),
        ("rotta", {"capacity": np.int64(8), "update_every": np.int64(8)}),
    ],
    ids=str,
)
def test_numbers_of_other_libraries_are_numbers(
    name: str, options: dict[str, Any], file: Path
) -> None:
    model = make(name, **options)
    walk(model, stream()[:3])
    rotta.save(model, file)
    loaded = rotta.load(file, small_net())
    assert loaded.built == model.built
    assert set(options) <= set(model.built)
    assert same(walk(loaded, stream()[3:]), walk(model, stream()[3:]))


class KeepsMore(nn.Module):
    """What PyTorch does not know of, and a parameter that holds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.nothing = small_net(), nn.Parameter(torch.empty(0))
        self.version = 1

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits

    def get_extra_state(self) -> dict[str, Any]:
        return {"version": self.version}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.version = state["version"]


@every_method
def test_a_network_that_keeps_more_than_tensors_goes_on(name: str, file: Path) -> None:
    model = make(name, KeepsMore())
    first = walk(model, stream()[:5])
    rotta.save(model, file)
    loaded = rotta.load(file, KeepsMore())
    assert fingerprint(loaded.state_dict()) == fingerprint(model.state_dict())
    assert same(walk(loaded, stream()[5:]), walk(model, stream()[5:]))
    model.reset()
    assert same(walk(model, stream()[:5]), first)


@every_method
def test_a_copy_goes_on_by_itself_around_the_same_network(name: str, file: Path) -> None:
    model = make(name, guard=True)
    walk(model, stream()[:3])
    rotta.save(model, file)
    size = file.stat().st_size
    twin = copy.deepcopy(model)
    assert twin.source_net is model.source_net
    seen = [sum(p.numel() for p in Learnt(each).parameters()[0]) for each in (model, twin)]
    assert seen[0] == seen[1]
    before = fingerprint(model.state_dict())
    of_twin = walk(twin, stream()[3:])
    assert fingerprint(model.state_dict()) == before
    rotta.save(twin, file)
    assert file.stat().st_size < 1.1 * size
    assert same(of_twin, walk(model, stream()[3:]))
    twin.reset()
    twin.double()
    assert model.state_dict().keys() == twin.state_dict().keys()
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert all(p.dtype == torch.float32 for p in model.source_net.parameters())


def test_a_method_that_could_not_be_built_again_is_not_saved(file: Path) -> None:
    with pytest.raises(ValueError, match=r"Unlisted is not in rotta\.METHODS"):
        rotta.save(Unlisted(small_net(), 10), file)
    assert not file.exists()


def tampered(file: Path, change: Any) -> None:
    """As another version might have written it: whole, and different."""
    content = read_state(file, "method")
    change(content)
    write_state(file, "method", content)


def test_a_file_from_before_an_option_goes_on_with_its_default(file: Path) -> None:
    model = make("tent")
    walk(model, stream()[:3])
    rotta.save(model, file)

    def grow_older(content: Any) -> None:
        for options in (content["options"], content["state"]["_extra_state"]["built"]):
            del options["guard"]

    tampered(file, grow_older)
    assert same(walk(rotta.load(file, small_net()), stream()[3:]), usual("tent")[3:])


CHANGES: dict[str, tuple[Any, str]] = {
    "unknown method": (lambda c: c.update(method="rota"), "did you mean 'rotta'"),
    "unknown option": (lambda c: c["options"].update(alfa=1.0), "did you mean 'alpha'"),
    "other option": (lambda c: c["options"].update(alpha=0.5), "saved with alpha=0.05"),
    "no options": (lambda c: c.pop("options"), "lacks its 'options'"),
    "no classes": (lambda c: c.update(num_classes=0), "num_classes"),
    "no state": (lambda c: c.update(state={}), "not the state of RoTTA"),
    "options of one kind": (lambda c: c["free"].update(alfa=1.0), "did you mean 'alpha'"),
    "other method": (lambda c: c.update(method="tent"), "unknown option of tent"),
    "half a state": (lambda c: c["state"].pop("bank.label"), "not the state of the same method"),
    "other shape": (
        lambda c: c["state"].update({"bank.label": torch.ones(3, dtype=torch.int64)}),
        "bank.label has another shape",
    ),
    "other kind": (
        lambda c: c["state"].update({"bank.label": torch.ones(16)}),
        "bank.label is of another kind",
    ),
    "no tensor": (lambda c: c["state"].update({"bank.label": 3}), "of another kind"),
    "no optimiser": (
        lambda c: c["state"]["_extra_state"]["optimiser"].pop("param_groups"),
        "its optimiser cannot be gone on from",
    ),
    "generator of nothing": (
        lambda c: c["state"]["_extra_state"].update(generator=torch.zeros(3, dtype=torch.uint8)),
        "its generator cannot be gone on from",
    ),
    "not even a state": (lambda c: c.update(state=3), "holds no method's state"),
    "not even a method": (lambda c: c.update(method=[1]), "holds no method's state"),
    "a seed that is none": (lambda c: c["free"].update(seed=0.5), "holds no method's state"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_whole_file_of_something_else_is_refused(change: str, file: Path) -> None:
    model = make("rotta")
    walk(model, stream()[:3])
    rotta.save(model, file)
    how, message = CHANGES[change]
    tampered(file, how)
    net = small_net()
    before = fingerprint(net.state_dict())
    with pytest.raises(ValueError, match=message):
        rotta.load(file, net)
    assert fingerprint(net.state_dict()) == before


def test_a_weight_file_is_no_saved_method(tmp_path: Path) -> None:
    from rotta.models.checkpoint import save_weights

    save_weights(tmp_path / "w.safetensors", small_net(), {"arch": "wrn-10-1"})
    with pytest.raises(ValueError, match="no whole file that rotta has saved"):
        rotta.load(tmp_path / "w.safetensors", small_net())


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def exact_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits each time, and the CPU's digits: cuDNN does neither by itself."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@needs_cuda
@pytest.mark.usefixtures("exact_convolutions")
@every_method
@pytest.mark.parametrize(("there", "here"), [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")])
def test_it_goes_on_on_another_device(name: str, there: str, here: str, file: Path) -> None:
    model = make(name, small_net().to(there))
    walk(model, [x.to(there) for x in stream()[:3]])
    rotta.save(model, file)
    loaded = rotta.load(file, small_net().to(here))
    assert all(t.device.type == here for t in _tensors(loaded))
    assert fingerprint(_by_value(loaded)) == fingerprint(_by_value(model))
    rest = [loaded(x.to(here)).cpu() for x in stream()[3:]]
    expected = [model(x.to(there)).cpu() for x in stream()[3:]]
    if here == there:
        assert same(rest, expected)
    # CoTTA draws other numbers on another device
    comparable = 0 if name == "cotta" and here != there else len(rest)
    for a, b in zip(rest[:comparable], expected, strict=False):
        assert torch.allclose(a, b, atol=1e-2)


def _tensors(model: rotta.Adapter) -> list[Tensor]:
    return [t for t in model.state_dict().values() if isinstance(t, Tensor)]


def _by_value(model: rotta.Adapter) -> dict[str, Tensor]:
    return {name: t.cpu() for name, t in model.state_dict().items() if isinstance(t, Tensor)}


def test_the_network_is_wanted_not_a_method_around_it(tmp_path: Path) -> None:
    model = make("tent")
    rotta.save(model, tmp_path / "model.rotta")
    with pytest.raises(ValueError, match=r"give the one in it, net\.detach\(\)"):
        rotta.load(tmp_path / "model.rotta", model)
