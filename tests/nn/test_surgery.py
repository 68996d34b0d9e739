"""Copies that share what they do not train, and layers swapped in them."""

import copy

import pytest
import torch
from torch import nn

from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import (
    affine_parameters,
    copy_sharing_weights,
    has_batch_norm,
    move_towards,
    replace_batch_norms,
    train_only,
)


def small_net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3))


def test_a_copy_shares_convolutions_and_owns_norms() -> None:
    net = small_net()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    own, twin = net.state_dict(), copy_sharing_weights(net).state_dict()
    shared = {name for name in own if own[name].data_ptr() == twin[name].data_ptr()}
    assert shared == {"0.weight", "0.bias", "3.weight", "3.bias"}
    for name in twin.keys() - shared:
        twin[name].add_(1)
    assert all(torch.equal(x, before[name]) for name, x in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())


def test_a_layer_used_twice_stays_one_layer() -> None:
    norm = nn.BatchNorm2d(3)
    net = nn.Sequential(norm, nn.Sequential(norm))
    replaced = replace_batch_norms(net, RobustBatchNorm.from_batchnorm)
    assert replaced[0] is replaced[1][0]  # type: ignore[index]
    assert len(affine_parameters(replaced, (RobustBatchNorm,))) == 2
    assert not has_batch_norm(replaced)


def test_a_network_that_is_a_norm_is_replaced_itself() -> None:
    assert isinstance(
        replace_batch_norms(nn.BatchNorm2d(3), RobustBatchNorm.from_batchnorm), RobustBatchNorm
    )


def test_moving_towards_another_set_of_parameters() -> None:
    target, source = [torch.zeros(2), torch.ones(1)], [torch.ones(2), torch.zeros(1)]
    move_towards(target, source, 0.25)
    assert [t.tolist() for t in target] == [[0.25, 0.25], [0.75]]


def test_training_some_freezes_the_others() -> None:
    net = small_net()
    train_only(net, affine_parameters(net, (nn.BatchNorm2d,)))
    flags = {name: p.requires_grad for name, p in net.named_parameters()}
    assert [name for name, flag in flags.items() if flag] == ["1.weight", "1.bias"]


class NormThenRelu(nn.BatchNorm2d):
    """As in timm: a BatchNorm that holds what comes after it."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normalised: torch.Tensor = self.act(super().forward(x))
        return normalised


class Doubling(nn.BatchNorm2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class ReluThenNorm(nn.BatchNorm2d):
    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.act(x))


def test_what_a_kind_of_batch_norm_does_besides_is_kept_or_refused() -> None:
    x = torch.randn(4, 3, 8, 8)
    net = nn.Sequential(NormThenRelu(3)).eval()
    expected = net(x)
    replaced = replace_batch_norms(copy.deepcopy(net), RobustBatchNorm.from_batchnorm)
    assert (expected == 0).any()
    assert torch.allclose(replaced(x), expected, atol=1e-6)
    for odd in (Doubling(3), ReluThenNorm(3)):
        with pytest.raises(ValueError, match=f"{type(odd).__name__} is a BatchNorm"):
            replace_batch_norms(nn.Sequential(odd), RobustBatchNorm.from_batchnorm)
