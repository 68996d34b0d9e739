"""States that fit by name and not by content: refused, with nothing changed."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_methods import fingerprint, images, make, small_net, stream, walk
from torch import Tensor

import rotta
from rotta.guard.signals import SIGNALS

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def first_moments(extra: dict[str, Any]) -> dict[str, Any]:
    moments: dict[str, Any] = extra["optimiser"]["state"][0]
    return moments


CHANGES: dict[str, Change] = {
    "moments of another shape": lambda _, extra: first_moments(extra).update(
        exp_avg=torch.zeros(1)
    ),
    "moments of whole numbers": lambda _, extra: first_moments(extra).update(
        step=torch.zeros((), dtype=torch.int64)
    ),
    "a step for each number": lambda _, extra: first_moments(extra).update(
        step=first_moments(extra)["exp_avg"]
    ),
    "moments that are no tensors": lambda _, extra: first_moments(extra).update(exp_avg_sq=None),
    "no moments": lambda _, extra: first_moments(extra).clear(),
    "moments of nobody": lambda _, extra: extra["optimiser"]["state"].update(
        {999: first_moments(extra)}
    ),
    "parameters in another order": lambda _, extra: extra["optimiser"]["param_groups"][0][
        "params"
    ].reverse(),
    "a rate that is no number": lambda _, extra: extra["optimiser"]["param_groups"][0].update(
        lr="fast"
    ),
    "a rate that is not finite": lambda _, extra: extra["optimiser"]["param_groups"][0].update(
        lr=math.nan
    ),
    "one beta": lambda _, extra: extra["optimiser"]["param_groups"][0].update(betas=(0.9,)),
    "a flag that is none": lambda _, extra: extra["optimiser"]["param_groups"][0].update(
        maximize=None
    ),
    "no groups": lambda _, extra: extra["optimiser"]["param_groups"].clear(),
    "a negative count": lambda _, extra: extra.update(samples_seen=-1),
    "a count that is none": lambda _, extra: extra.update(samples_seen=True),
    "images of two axes": lambda _, extra: extra.update(_input_shape=(3, 16)),
    "images of another shape": lambda _, extra: extra.update(_input_shape=(3, 8, 8)),
    "skipped for other reasons": lambda _, extra: extra.update(skipped={"mood": 3}),
    "random state of nothing": lambda _, extra: extra.update(
        generator=torch.zeros(5056, dtype=torch.uint8)
    ),
    "built of nothing": lambda _, extra: extra.update(built=None),
    "classes beyond the last": lambda state, _: state["bank.label"].fill_(10),
    "a gap between the places": lambda state, _: state["bank.label"][0].fill_(-1),
    "images that are rows": lambda state, _: state.update(
        {"bank.images": state["bank.images"].flatten(1)}
    ),
    "images from the future": lambda state, _: state["bank.arrived"].fill_(10**6),
    "time that runs backwards": lambda state, _: state["bank.clock"].fill_(-1),
    "an alarm in between": lambda _, extra: extra["_guard"].update(_alarms=0.5),
    "half of the signals": lambda _, extra: extra["_guard"].update(_signals={SIGNALS[0]: 0.5}),
    "signals of the last look that are too few": lambda _, extra: extra["_guard"].update(
        _asked=torch.zeros(1)
    ),
    "a snapshot of something else": lambda _, extra: extra["_guard"].update(
        _snapshot={"bank.label": torch.zeros(3)}
    ),
    "a snapshot that is none": lambda _, extra: extra["_guard"].update(_snapshot={"a": 3}),
    "an event that is none": lambda _, extra: extra["_guard"].update(events=[{"batch": 1}]),
    "evidence of the contrary": lambda _, extra: extra["_guard"].update(_evidence=-1.0),
    "a guard that is none": lambda _, extra: extra.update(_guard=3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_cannot_be_gone_on_from_is_refused(change: str) -> None:
    model = make("rotta", guard=True)
    walk(model, stream())
    state = model.state_dict()
    state = {name: v.clone() if isinstance(v, Tensor) else v for name, v in state.items()}
    make("rotta", guard=True).load_state_dict(state)  # as it is, it can be gone on from
    CHANGES[change](state, state["_extra_state"])
    other = make("rotta", guard=True)
    walk(other, stream()[:2])
    before = fingerprint(other.state_dict())
    with pytest.raises(ValueError, match="not the state of the same method"):
        other.load_state_dict(state)
    assert fingerprint(other.state_dict()) == before


def test_a_reservoir_has_seen_what_it_holds() -> None:
    model = make("note")
    walk(model, stream())
    state = dict(model.state_dict())
    state["bank.seen"] = torch.zeros_like(state["bank.seen"])
    with pytest.raises(ValueError, match="the counts of its bank"):
        make("note").load_state_dict(state)


@pytest.mark.parametrize("label", [10, -1])
def test_a_reservoir_with_a_class_that_cannot_be_is_refused_alike(label: int) -> None:
    model = make("note")
    walk(model, stream())
    state = {n: v.clone() if isinstance(v, Tensor) else v for n, v in model.state_dict().items()}
    state["bank.label"][0] = label
    with pytest.raises(ValueError, match="the classes of its bank"):
        make("note").load_state_dict(state)


def test_the_start_and_every_state_on_the_way_can_be_gone_on_from() -> None:
    model, other = (make("rotta", small_net(), guard=True) for _ in range(2))
    for seed in range(30):
        other.load_state_dict(model.state_dict())
        model(images(7, seed))


class OfSomebody(rotta.TENT):
    """A method of a user's own, with an optimiser as PyTorch makes it by default."""

    STATE = (*rotta.TENT.STATE, "best")  # type: ignore[assignment]

    def __init__(self, net: Any, num_classes: int, *, rates: list[float] | None = None) -> None:
        super().__init__(net, num_classes, reset_every=16)
        parameters = [p for p in self.parameters() if p.requires_grad]
        self.optimiser = torch.optim.SGD(  # type: ignore[assignment]
            parameters, lr=(rates or [0.1])[0], momentum=0.9
        )
        self.best: float | None = None

    def learn(self, x: Tensor, logits: Tensor) -> None:
        super().learn(x, logits)
        self.best = float(logits.max())


def test_methods_and_optimisers_of_others_go_on_too() -> None:
    model = OfSomebody(small_net(), 10, rates=[0.01])
    torch.optim.lr_scheduler.StepLR(model.optimiser, 10)  # which notes its own in the optimiser
    first = walk(model, stream())
    other = OfSomebody(small_net(), 10, rates=[0.01])
    other.load_state_dict(model.state_dict())
    assert other.best == model.best is not None
    model.reset()
    assert all(torch.equal(a, b) for a, b in zip(first, walk(model, stream()), strict=True))


def test_what_another_version_of_pytorch_notes_besides_is_no_matter() -> None:
    model = make("tent")
    walk(model, stream())
    state = model.state_dict()
    (group,) = state["_extra_state"]["optimiser"]["param_groups"]
    del group["decoupled_weight_decay"], group["eps"]
    group["of the future"] = "yes"
    other = make("tent")
    other.load_state_dict(state)
    assert torch.equal(other(images(7)), model(images(7)))
    assert torch.equal(other(images(7)), model(images(7)))


def test_whoever_copies_a_network_beside_a_method_gets_a_network_of_his_own() -> None:
    net = small_net()
    both = torch.nn.ModuleDict({"method": make("tent", net), "net": net})
    assert copy.deepcopy(both)["net"] is not net
