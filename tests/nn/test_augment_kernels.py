"""The kernels make the views that PyTorch makes, to rounding.

They need a GPU, or Triton's interpreter.
"""

from collections.abc import Iterator
from itertools import permutations

import pytest
import torch
from torch import Tensor

from cuda_kernels import DEVICE, INTERPRETED, ON_A_GPU, for_cuda, on_a_gpu, without_a_gpu
from rotta.nn import augment_cuda
from rotta.nn.augment import StrongView, drawn_strong_views, strong_view

pytestmark = list(for_cuda)

CPU = torch.device("cpu")
LAYOUTS = [torch.contiguous_format, torch.channels_last]
SIDES = [(1, 1), (8, 8), (32, 32), (33, 20)]
SIDES += [(64, 64), (224, 224)] if ON_A_GPU else []  # the interpreter is slow
SEEDS = range(3 if ON_A_GPU else 1)


@pytest.fixture(scope="module", autouse=True)
def _kernels_make_views() -> Iterator[None]:
    """Interpreted, on a CPU too."""
    with without_a_gpu() as patch:
        if INTERPRETED:
            patch.setattr(augment_cuda, "usable", lambda x: True)
        yield


def pictures(batch: int, height: int, width: int, seed: int) -> Tensor:
    """Noise, a little out of range, with some greys, which have no hue."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(batch, 3, height, width, generator=generator) * 1.1 - 0.05
    x[0, :, :2] = x[0, :1, :2]
    return x


def assert_same_views(x: Tensor, view: StrongView, layout: torch.memory_format) -> None:
    """Beside double precision on the host, whose rounding is nobody's."""
    groups = len(view.angle)
    noise = torch.randn(groups * len(x), *x.shape[1:], generator=torch.Generator().manual_seed(1))
    expected = strong_view(x.repeat(groups, 1, 1, 1).double(), view, noise.double())
    there = x.to(DEVICE).to(memory_format=layout)
    made = augment_cuda.strong_view(there, view.packed(there.device), noise.to(DEVICE))
    assert made.is_contiguous(memory_format=layout)
    # a place is known to a few roundings of the side, and neighbours differ by up to one
    assert torch.allclose(made.cpu().double(), expected, rtol=0, atol=1e-5 + 4e-7 * max(x.shape))
    assert torch.equal(there.cpu(), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("height", "width"), SIDES)
@pytest.mark.parametrize(("batch", "groups"), [(5, 1), (3, 4)])
def test_views_are_those_of_pytorch(
    batch: int, groups: int, height: int, width: int, layout: torch.memory_format
) -> None:
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        view = StrongView.draw(groups, height, width, generator, CPU)
        assert_same_views(pictures(batch, height, width, seed), view, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_colour_steps_come_in_any_order(layout: torch.memory_format) -> None:
    orders = torch.tensor(list(permutations(range(5))))[:: 1 if ON_A_GPU else 7]
    for seed in SEEDS:
        view = StrongView.draw(len(orders), 8, 8, torch.Generator().manual_seed(seed), CPU)
        ordered = StrongView(**vars(view) | {"order": orders})
        assert_same_views(pictures(2, 8, 8, seed), ordered, layout)


def test_a_batch_cut_from_larger_images_is_read_aright() -> None:
    whole = pictures(4, 24, 24, seed=0).to(DEVICE)
    view = StrongView.draw(1, 16, 16, torch.Generator().manual_seed(0), CPU).packed(whole.device)
    noise = torch.zeros(2, 3, 16, 16, device=DEVICE)
    cut = whole[1:3, :, 4:20, 4:20]
    assert torch.equal(
        augment_cuda.strong_view(cut, view, noise),
        augment_cuda.strong_view(cut.contiguous(), view, noise),
    )


def views_of(x: Tensor, at_once: int) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.cat(list(drawn_strong_views(x, generator, views=5, at_once=at_once)))


def test_drawn_views_do_not_depend_on_who_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    side = 32 if ON_A_GPU else 12
    x = pictures(6, side, side, seed=0).to(DEVICE)
    assert augment_cuda.usable(x)
    by_kernels = views_of(x, at_once=1)
    assert torch.equal(views_of(x, at_once=1), by_kernels)
    assert torch.equal(views_of(x, at_once=2), by_kernels)
    monkeypatch.setattr(augment_cuda, "usable", lambda x: False)
    assert torch.allclose(views_of(x, at_once=2), by_kernels, rtol=0, atol=5e-5)


@on_a_gpu
@pytest.mark.parametrize(("channels", "dtype"), [(1, torch.float32), (3, torch.float64)])
def test_other_images_are_left_to_pytorch(channels: int, dtype: torch.dtype) -> None:
    x = torch.rand(2, channels, 8, 8, device=DEVICE, dtype=dtype)
    assert not augment_cuda.usable(x)
    assert views_of(x, at_once=2).shape == (10, channels, 8, 8)


@pytest.fixture
def _no_waiting_for_the_gpu() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@on_a_gpu
@pytest.mark.usefixtures("_no_waiting_for_the_gpu")
def test_nothing_waits_for_the_gpu() -> None:
    x = torch.rand(4, 3, 16, 16, device=DEVICE)
    views_of(x, at_once=2)
    torch.cuda.set_sync_debug_mode("error")
    views_of(x, at_once=2)
