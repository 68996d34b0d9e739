"""The pass of the unchanged network, alone and shared."""

import pytest
import torch
from small_methods import images, make, small_net
from torch import Tensor, nn

from rotta.adapters.unchanged import SharedPass, UnchangedPass, share_pass


class Skips(nn.Module):
    """Has a linear layer that it does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(12, 10)
        self.head = nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.head.weight.T


def test_logits_and_what_the_last_layer_was_given() -> None:
    net = small_net().eval()
    x = images(5)
    seen = UnchangedPass(net, 10, features=True)(x)
    assert torch.equal(seen.logits, net(x))
    assert seen.features is not None
    assert torch.equal(seen.features, net.features(x))  # type: ignore[operator]
    assert not any(module._forward_pre_hooks for module in net.modules())


def test_a_layer_that_is_not_called_or_not_there_gives_no_features() -> None:
    x = torch.rand(3, 3, 2, 2)
    assert UnchangedPass(Skips(), 10, features=True)(x).features is None
    assert UnchangedPass(nn.Flatten(), 12, features=True)(x).features is None


def test_nobody_notes_any_more_after_an_error() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10), nn.Flatten(0))
    look = UnchangedPass(net, 10, features=True)
    with pytest.raises(ValueError, match="must return logits"):
        look(torch.rand(3, 3, 2, 2))
    assert not any(module._forward_pre_hooks for module in net.modules())


def test_one_pass_until_the_next_batch_and_none_for_one_that_failed() -> None:
    asked: list[int] = []

    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            asked.append(len(x))
            if len(x) == 1:
                raise RuntimeError("out of memory")
            return x.flatten(1)

    shared = SharedPass(UnchangedPass(Fails(), 12, features=False))
    first = shared(torch.rand(2, 3, 2, 2))
    assert shared(torch.rand(2, 3, 2, 2)) is first
    shared.next_batch()
    for _ in range(2):  # nothing is remembered that was not seen
        with pytest.raises(RuntimeError, match="out of memory"):
            shared(torch.rand(1, 3, 2, 2))
    shared.next_batch()
    assert len(shared(torch.rand(3, 3, 2, 2)).logits) == 3
    assert asked == [2, 1, 1, 3]


def test_those_that_answer_otherwise_share_nothing() -> None:
    net = small_net()
    assert share_pass([make("bn", net), make("tent", net)]) is None
    bn, lame, source = make("bn", net), make("lame", net), make("source", net)
    shared = share_pass([bn, lame, source])
    assert bn.unchanged is None
    assert lame.unchanged is shared
    assert source.unchanged is shared


def test_features_are_there_for_whoever_wants_them() -> None:
    net, x = small_net(), images(5)
    source, lame = make("source", net), make("lame", net)
    assert isinstance(source.unchanged, UnchangedPass)
    assert source.unchanged(x).features is None  # nothing is hooked in: threads may share it
    alone = lame.predict(x)
    share_pass([source, lame])
    source.predict(x)
    assert torch.equal(lame.predict(x), alone)
