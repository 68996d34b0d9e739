"""Scale and shift, ReLU and gradients against PyTorch's own, in every layout."""

import pytest
import torch
from torch import Tensor

from rotta.nn.affine import OwnGradients, own_kernels_serve, scaled_and_shifted

pytestmark = pytest.mark.usefixtures("each_way")

LAYOUTS = [torch.channels_last, torch.contiguous_format]
SHAPES = [(4, 6), (4, 6, 5), (2, 6, 3, 3, 3), (4, 6, 5, 7), (2, 33, 64, 64), (0, 6, 5, 7)]


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def images(*shape: int, layout: torch.memory_format = torch.channels_last) -> Tensor:
    x = draws(*shape)
    return x.contiguous(memory_format=layout) if x.ndim == 4 else x


def obvious(x: Tensor, scale: Tensor, shift: Tensor, relu: bool) -> Tensor:
    wide = [*scale.shape, *[1] * (x.ndim - 2)]
    y = x.double() * scale.view(wide) + shift.view(wide)
    return y.relu() if relu else y


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of_images", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scales_and_shifts(
    shape: tuple[int, ...], of_images: bool, layout: torch.memory_format, relu: bool
) -> None:
    x = images(*shape, layout=layout)
    before = x.clone()
    scale, shift = draws(2, *shape[0 if of_images else 1 : 2], seed=1).unbind()
    y = scaled_and_shifted(x, scale, shift, relu=relu)
    assert_close(y, obvious(x, scale, shift, relu))
    assert y.stride() == x.stride()
    assert torch.equal(x, before)


@pytest.mark.parametrize("relu", [False, True])
def test_overwrites_if_told(relu: bool, each_way: str) -> None:
    x, (scale, shift) = images(4, 6, 5, 7), draws(2, 6, seed=1)
    fresh = scaled_and_shifted(x, scale, shift, relu=relu)
    again = scaled_and_shifted(x, scale, shift, relu=relu, out=x)
    assert torch.equal(again, fresh)
    assert (again.data_ptr() == x.data_ptr()) == (each_way == "our kernels")


def test_numbers_may_be_part_of_others() -> None:
    """Those of a stream in a pool are a part of its row, those of a layer may have gaps."""
    x, row = images(4, 6, 5, 7), draws(2, 4, 20, seed=1)
    scale, shift = row[..., 3:9].unbind()
    assert_close(scaled_and_shifted(x, scale, shift), obvious(x, scale, shift, False))
    scale, shift = draws(6, 2, seed=2).unbind(dim=1)
    assert_close(scaled_and_shifted(x, scale, shift), obvious(x, scale, shift, False))


def test_numbers_in_more_digits_than_the_values_are_no_matter_for_the_kernels() -> None:
    x, (scale, shift) = images(4, 6, 5, 7), draws(2, 4, 6, seed=1).double()
    assert not own_kernels_serve(x, scale, shift)
    assert_close(scaled_and_shifted(x, scale, shift).float(), obvious(x, scale, shift, False))


def test_reduced_precision_stays_reduced() -> None:
    x = images(4, 6, 5, 7).to(torch.bfloat16)
    scale, shift = draws(2, 6, seed=1)
    assert scaled_and_shifted(x, scale, shift).dtype == torch.bfloat16


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 5, 4, 6), (2, 33, 9, 1), (2, 3, 8)], ids=str)
def test_gradients_of_numbers_that_are_each_images_own(
    shape: tuple[int, ...], layout: torch.memory_format, relu: bool
) -> None:
    x, grad = images(*shape, layout=layout), draws(*shape, seed=1)
    wide = (*shape[:2], *[1] * (x.ndim - 2))
    scale, shift, centre, slope, offset = draws(5, *wide, seed=2)
    y = scaled_and_shifted(x, scale.flatten(1), shift.flatten(1), relu=relu)
    by_kernels = own_kernels_serve(x, scale, shift)
    kept = y if relu and not by_kernels else None
    gradients = OwnGradients(grad, x, scale, shift, relu, by_kernels, kept)

    g = grad.double() * (y > 0) if relu else grad.double()
    axes = list(range(2, x.ndim))
    of_scale, of_shift = gradients.sums(centre)
    assert of_scale.shape == of_shift.shape == wide
    assert_close(of_scale, (g * (x.double() - centre)).sum(axes, keepdim=True))
    assert_close(of_shift, g.sum(axes, keepdim=True))
    of_x = gradients.of_x(slope, offset)
    assert_close(of_x, scale * g + slope * x.double() + offset)
    assert of_x.stride() == x.stride()
