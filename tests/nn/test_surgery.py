"""Copies that share what they do not train, and layers swapped in them."""

import pytest
import torch
from torch import nn

from rotta.nn.batch_stats import BatchStatNorm
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import (
    affine_parameters,
    copy_sharing_weights,
    has_batch_norm,
    move_towards,
    replace_batch_norms,
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


def test_batch_statistics_ignore_the_mode() -> None:
    bn = nn.BatchNorm2d(3)
    x = torch.rand(8, 3, 4, 4) * 5
    layer = BatchStatNorm.from_batchnorm(bn)
    assert torch.equal(layer.eval()(x), layer.train()(x))
    assert torch.allclose(layer(x), bn.train()(x))


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1)])
def test_one_value_per_channel_gives_beta(shape: tuple[int, ...]) -> None:
    layer = BatchStatNorm(torch.full((3,), 2.0), torch.tensor([1.0, 2.0, 3.0]), 1e-5)
    assert layer(torch.rand(shape)).flatten().tolist() == [1, 2, 3]
