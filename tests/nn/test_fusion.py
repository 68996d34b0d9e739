"""ReLUs that normalisation layers take over."""

import copy
import threading
from collections.abc import Callable
from typing import Any, TypeGuard

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models import build
from rotta.nn import fusion
from rotta.nn.batch_stats import BatchStatNorm, separate_passes
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import replace_batch_norms


def fuse_relus(net: nn.Module) -> nn.Module:
    """With the networks of this file among those whose code is known."""
    return fusion.fuse_relus(net, (*fusion.PACKAGES, __name__.split(".")[0]))


def robust(net: nn.Module) -> nn.Module:
    return replace_batch_norms(net, RobustBatchNorm.from_batchnorm).eval()


def fused_layers(net: nn.Module) -> int:
    return sum(isinstance(m, RobustBatchNorm) and m.relu for m in net.modules())


LAYOUTS = [torch.contiguous_format, torch.channels_last]  # the latter goes by kernels of our own


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("arch", "expected"), [("wrn-10-1", 7), ("resnext-29", 19), ("resnet-18", 9)]
)
def test_networks_compute_the_same(
    arch: str, expected: int, layout: torch.memory_format, each_way: str
) -> None:
    if each_way == "PyTorch's kernels" and layout == torch.channels_last:
        pytest.skip("they do not mind how images lie")
    plain, fused = robust(build(arch, 10)), fuse_relus(robust(build(arch, 10)))
    assert fused_layers(fused) == expected
    assert set(plain.state_dict()) == set(fused.state_dict())
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    x = x.contiguous(memory_format=layout)
    with torch.no_grad():
        assert torch.allclose(plain(x), fused(x), rtol=1e-4, atol=1e-5)
    for mode in (False, True):  # by the stored statistics; by moved ones, with gradients
        results = []
        for net in (plain, fused):
            for layer in net.modules():
                layer.training = mode and isinstance(layer, RobustBatchNorm)
            net.zero_grad()
            logits = net(x)
            logits.square().sum().backward()
            gradients = [p.grad for _, p in sorted(net.named_parameters())]
            results.append([logits, *gradients, *[b for _, b in sorted(net.named_buffers())]])
        for a, b in zip(*results, strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("arch", ["wrn-10-1", "resnext-29"])
def test_normalisation_by_the_batch_takes_relus_over_too(arch: str, passes: int) -> None:
    plain, other = (
        replace_batch_norms(build(arch, 10, seed=0), BatchStatNorm.from_batchnorm).eval()
        for _ in range(2)
    )
    fused = fuse_relus(other)
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert any(isinstance(layer, BatchStatNorm) and layer.relu for layer in fused.modules())
    with torch.no_grad(), separate_passes(plain, passes), separate_passes(fused, passes):
        assert torch.equal(plain(x), fused(x))


@pytest.mark.parametrize("arch", ["wrn-28-10", "resnext-29", "resnet-18"])
def test_what_a_network_holds_stays_in_order(arch: str) -> None:
    """What is drawn for one parameter after the other is drawn for the same ones."""
    plain = robust(build(arch, 10))
    names = [name for name, _ in plain.named_parameters()]
    assert [name for name, _ in fuse_relus(plain).named_parameters()] == names


@pytest.mark.parametrize(
    ("arch", "expected"), [("wrn-10-1", 6), ("resnext-29", 19), ("resnet-18", 9)]
)
def test_layers_may_overwrite_what_only_they_read(arch: str, expected: int) -> None:
    norms = [m for m in fuse_relus(robust(build(arch, 10))).modules() if _is_norm(m)]
    assert sum(norm.may_overwrite for norm in norms) == expected


def _is_norm(module: nn.Module) -> TypeGuard[RobustBatchNorm]:
    return isinstance(module, RobustBatchNorm)


def itself(conv: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    y = conv(x)
    return y, y


def a_view(conv: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    y = conv(x)
    return y, y.view(-1, 3, 4, 4)


def changed_in_place(_: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.add_(1)


def the_input(_: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x


class ReadTwice(nn.Module):
    """What is normalised is needed again."""

    def __init__(self, read: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.conv, self.norm, self.read = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), read

    def forward(self, x: Tensor) -> Tensor:
        other, normalised = self.read(self.conv, x)
        y: Tensor = F.relu(self.norm(normalised)) + other
        return y


@pytest.mark.parametrize("read", [itself, a_view, changed_in_place, the_input])
def test_layers_do_not_overwrite_what_others_read(
    read: Callable[[nn.Module, Tensor], tuple[Tensor, Tensor]],
) -> None:
    fused = fuse_relus(robust(ReadTwice(read)))
    assert fused_layers(fused) == 1
    (norm,) = (m for m in fused.modules() if _is_norm(m))
    assert not norm.may_overwrite


class Branching(nn.Module):
    """The normalised values are used before and after the ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return F.relu(y) - y


class Twice(nn.Module):
    """One layer, at one place with a ReLU and at another without."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(F.relu(self.norm(x)))
        return y


class DependsOnImages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.norm(x))
        return y if y.sum() > 0 else -y


@pytest.mark.parametrize("make", [Branching, Twice, DependsOnImages])
def test_what_cannot_be_fused_is_left_as_it_is(make: Callable[[], nn.Module]) -> None:
    net = robust(make())
    assert fuse_relus(net) is net
    assert fused_layers(net) == 0


def test_a_network_with_listeners_is_left_as_it_is() -> None:
    heard = []
    net = robust(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
    net[1].register_forward_hook(lambda *_: heard.append(1))  # type: ignore[index]
    fuse_relus(net)(torch.rand(2, 3, 4, 4))
    assert heard == [1]


def test_a_network_with_listeners_to_gradients_is_left_as_it_is() -> None:
    for part in (0, 1):
        net = robust(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
        net[part].register_full_backward_hook(lambda *_: None)  # type: ignore[index]
        assert fuse_relus(net) is net
        net = robust(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
        net[part].register_full_backward_pre_hook(lambda *_: None)  # type: ignore[index]
        assert fuse_relus(net) is net


class ChangesWhatHasTwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        first = self.conv(x)
        second, third = first, first[1:]
        second += 1
        third *= 2
        y: Tensor = F.relu(self.norm(first)) - second
        return y


def test_what_is_changed_in_place_is_changed_under_all_its_names(each_way: str) -> None:
    net = robust(ChangesWhatHasTwoNames())
    x = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        expected = copy.deepcopy(net)(x.clone())
        fused = fuse_relus(net)
        assert fused_layers(fused) == 1
        torch.testing.assert_close(fused(x), expected)


class HoldsMoreThanItUses(nn.Module):
    """For training, or for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary = nn.Sequential(nn.Linear(3, 2), nn.ModuleDict({"a": nn.BatchNorm1d(2)}))
        self.stem = nn.Module()
        self.stem.register_buffer("seen", torch.zeros(1))
        self.stem.norm = nn.BatchNorm2d(3)
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.scale = nn.Parameter(torch.ones(3))
        self.again = self.stem

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.stem.get_submodule("norm")(x))
        return y


def test_what_predictions_do_not_need_belongs_to_the_state_too() -> None:
    net = robust(HoldsMoreThanItUses())
    held = list(net.state_dict())
    buffers = [name for name, _ in net.named_buffers()]
    fused = fuse_relus(net)
    assert fused_layers(fused) == 1
    for each in (fused, copy.deepcopy(fused)):
        assert list(each.state_dict()) == held
        assert [name for name, _ in each.named_buffers()] == buffers
        each.load_state_dict(net.state_dict())


@pytest.mark.parametrize("relu", [nn.ReLU(), nn.ReLU(inplace=True)])
def test_layers_and_functions_count_alike(relu: nn.Module) -> None:
    net = fuse_relus(robust(nn.Sequential(nn.BatchNorm2d(3), relu)))
    assert fused_layers(net) == 1
    x = torch.randn(2, 3, 4, 4)
    assert torch.allclose(net(x), F.relu(x / (1 + 1e-5) ** 0.5), atol=1e-6)


def test_a_layer_used_twice_is_fused_if_a_relu_follows_each_time() -> None:
    norm, relu = nn.BatchNorm2d(3), nn.ReLU()
    net = fuse_relus(robust(nn.Sequential(norm, relu, nn.Conv2d(3, 3, 1), norm, relu)))
    assert fused_layers(net) == 1
    net(torch.rand(2, 3, 4, 4))


class TwiceOfOne(nn.Module):
    """A layer that is used twice, the second time on what is needed again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        first = self.conv(F.relu(self.norm(self.conv(x))))
        y: Tensor = F.relu(self.norm(first)) + first
        return y


def test_a_layer_used_twice_may_overwrite_only_what_nobody_needs_either_time() -> None:
    net = fuse_relus(robust(TwiceOfOne()))
    assert fused_layers(net) == 1
    assert not any(norm.may_overwrite for norm in net.modules() if _is_norm(norm))


class FromAnotherThread(nn.Module):
    """While it is traced, somebody else uses a network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.others: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU())
        other = threading.Thread(target=lambda: self.others.append(net(torch.rand(2, 3, 4, 4))))
        other.start()
        other.join()
        y: Tensor = F.relu(self.norm(x))
        return y


def test_networks_in_other_threads_are_not_disturbed() -> None:
    net = robust(FromAnotherThread())
    fused = fuse_relus(net)
    assert fused_layers(fused) == 1
    assert isinstance(net, FromAnotherThread)
    assert [tuple(output.shape) for output in net.others] == [(2, 4, 4, 4)]
    assert "forward" not in net.norm.__dict__


def test_buffers_and_parameters_outside_of_layers_move_with_the_network() -> None:
    class Scaled(nn.Module):
        shift: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(3)
            self.register_buffer("shift", torch.ones(3, 1, 1))
            self.scale = nn.Parameter(torch.full((3, 1, 1), 2.0))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = F.relu(self.norm((x - self.shift) * self.scale))
            return y

    net = robust(Scaled())
    x = torch.randn(2, 3, 4, 4)
    expected = net(x)
    fused = fuse_relus(net)
    assert fused is not net
    assert set(fused.state_dict()) == set(net.state_dict())
    assert torch.allclose(fused(x), expected)
    assert fused.double()(x.double()).dtype == torch.float64


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.calls = nn.BatchNorm2d(3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y: Tensor = F.relu(self.norm(x))
        return y


def test_the_code_of_strangers_keeps_running() -> None:
    net = robust(Own())
    assert fusion.fuse_relus(net) is net
    net(torch.rand(2, 3, 4, 4))
    assert net.calls == 1


class Noisy(Own):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.norm(x + torch.randn(3, 1, 1)))
        return y


class InADict(Own):
    def forward(self, x: Tensor) -> Any:
        return {"logits": F.relu(self.norm(x))}


@pytest.mark.parametrize("make", [Noisy, InADict])
def test_what_would_be_frozen_by_tracing_is_left_as_it_is(make: Callable[[], nn.Module]) -> None:
    net = robust(make())
    assert fuse_relus(net) is net


def test_a_layer_with_a_forward_of_its_own_keeps_it() -> None:
    net = robust(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 1)))
    net[2].forward = lambda x: x + 1  # type: ignore[index]
    assert fuse_relus(net) is net
    assert torch.equal(net(torch.zeros(1, 3, 2, 2)), torch.ones(1, 3, 2, 2))
