"""BN, PL and TENT beside the framework's own layers and optimiser."""

import copy

import pytest
import torch
import torch.nn.functional as F
from small_methods import make, small_net, stream
from torch import Tensor, nn


def plain_net() -> tuple[nn.Module, list[nn.Parameter]]:
    """The network with BatchNorm in training mode, and γ and β of all its layers."""
    net = copy.deepcopy(small_net()).train().requires_grad_(False)
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    trained = [p for norm in norms for p in norm.parameters()]
    for parameter in trained:
        parameter.requires_grad_(True)
    return net, trained


def plain_loss(name: str, logits: Tensor) -> Tensor:
    if name == "pl":
        return F.nll_loss(logits.log_softmax(1), logits.argmax(1))
    p = logits.softmax(1)
    return -(p * p.log()).sum(1).mean()


def test_bn_is_batch_norm_in_training_mode() -> None:
    net, _ = plain_net()
    model = make("bn")
    for x in stream():
        assert torch.allclose(model(x), net(x), atol=1e-5)


@pytest.mark.parametrize("name", ["pl", "tent"])
def test_steps_are_those_taken_by_hand(name: str) -> None:
    net, trained = plain_net()
    optimiser = torch.optim.Adam(trained, lr=0.01)
    model = make(name, lr=0.01)
    for x in stream(4):
        logits = net(x)
        assert torch.allclose(model(x), logits, atol=1e-4)
        optimiser.zero_grad()
        plain_loss(name, logits).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


@pytest.mark.parametrize("name", ["pl", "tent"])
def test_only_gamma_and_beta_learn(name: str) -> None:
    model = make(name)
    before = {key: p.clone() for key, p in model.named_parameters()}
    model(stream()[0])
    moved = {key for key, p in model.named_parameters() if not torch.equal(p, before[key])}
    norms = {key for key, p in model.named_parameters() if p.requires_grad}
    assert moved == norms
    assert all("bn" in key for key in norms)


@pytest.mark.parametrize("name", ["pl", "tent"])
def test_networks_with_group_norm_learn_too(name: str) -> None:
    layers = nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    model = make(name, nn.Sequential(*layers, nn.Linear(4, 10)))
    x = stream()[0]
    first = model(x)
    assert not torch.equal(model(x), first)
