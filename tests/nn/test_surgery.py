"""Copies that share what they do not train, and layers swapped in them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import (
    affine_parameters,
    copy_sharing_weights,
    has_batch_norm,
    move_towards,
    replace_batch_norms,
    train_only,
)

from_batchnorm = RobustBatchNorm.from_batchnorm


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


def test_a_layer_under_two_names_of_one_part_is_replaced_under_both() -> None:
    norm = nn.BatchNorm2d(3)
    replaced = replace_batch_norms(nn.Sequential(norm, norm), RobustBatchNorm.from_batchnorm)
    assert replaced[0] is replaced[1]  # type: ignore[index]
    assert isinstance(replaced[1], RobustBatchNorm)  # type: ignore[index]


def test_who_listens_to_a_layer_listens_to_the_new_one() -> None:
    net, x = nn.Sequential(nn.BatchNorm2d(3)).eval(), torch.rand(2, 3, 4, 4)
    net[0].register_forward_hook(lambda _, inputs, output: 2 * output)
    net[0].register_forward_pre_hook(
        lambda _, inputs, named: ((inputs[0] + 1,), named), with_kwargs=True
    )
    seen = []
    net[0].register_full_backward_hook(lambda _, of_input, of_output: seen.append(of_output))
    x.requires_grad_()
    expected = net(x)
    twin = replace_batch_norms(copy_sharing_weights(net), RobustBatchNorm.from_batchnorm)
    given = twin(x)
    torch.testing.assert_close(given, expected)
    given.sum().backward()
    assert len(seen) == 1


def test_who_listens_to_the_end_of_a_call_hears_of_one_that_fails_too() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3)).eval()
    heard: list[object] = []
    net[0].register_forward_hook(lambda _, inputs, output: heard.append(output), always_call=True)
    twin = replace_batch_norms(copy_sharing_weights(net), from_batchnorm)
    with pytest.raises(RuntimeError):
        twin(torch.rand(2, 5, 4, 4))
    assert heard == [None]


@torch.no_grad()
def test_what_pruning_made_of_a_layer_is_taken_over() -> None:
    layer, x = nn.BatchNorm2d(4).eval(), torch.rand(2, 4, 3, 3)
    layer.bias.copy_(torch.arange(4))
    prune.l1_unstructured(layer, "bias", amount=0.5)  # type: ignore[no-untyped-call]
    expected = layer(x)
    assert expected[:, 1].max() < 1  # β is 0 there now
    own = replace_batch_norms(copy.deepcopy(nn.Sequential(layer)), from_batchnorm)
    torch.testing.assert_close(own(x), expected)


def test_a_layer_with_a_forward_or_call_of_its_own_is_refused() -> None:
    class Twice(nn.BatchNorm2d):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().__call__(x)  # type: ignore[no-any-return]

    patched = nn.BatchNorm2d(3)
    patched.forward = lambda x: 2 * x  # type: ignore[method-assign, assignment]
    for layer in (Twice(3), patched):
        with pytest.raises(ValueError, match="of its own"):
            replace_batch_norms(nn.Sequential(layer), from_batchnorm)


def test_numbers_that_share_a_place_get_their_own_in_a_copy() -> None:
    net = small_net()
    net.register_buffer("thirds", torch.ones(1).expand(3))
    twin = copy_sharing_weights(net)
    twin.load_state_dict({**net.state_dict(), "thirds": torch.arange(3.0)})
    assert twin.thirds.tolist() == [0, 1, 2]  # type: ignore[operator]
    assert net.thirds.stride() == (0,)  # type: ignore[operator]


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
