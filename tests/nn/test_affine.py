"""Normalisation by known statistics against PyTorch's own, in every layout."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn.affine import normalised, scaled_and_shifted

MANY = 4, 6, 64, 64  # values that are worth another way than PyTorch's
LAYOUTS = [torch.channels_last, torch.contiguous_format]


def numbers(channels: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    mean, weight, bias = torch.randn(3, channels, dtype=dtype).unbind()
    return mean, torch.rand(channels, dtype=dtype) + 0.5, weight, bias


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("size", [(4, 6, 5, 7), MANY])
def test_normalises_as_the_framework_does(
    layout: torch.memory_format, grad: bool, size: tuple[int, ...]
) -> None:
    x = torch.randn(size).contiguous(memory_format=layout)
    mean, var, weight, bias = numbers(6)
    with torch.set_grad_enabled(grad):
        ours = normalised(x, mean, var, weight, bias, 1e-3)
    theirs = F.batch_norm(x, mean, var, weight, bias, eps=1e-3)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert ours.stride() == theirs.stride()


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 5), (2, 6, 3, 3, 3), (0, 6, 5, 7)])
def test_takes_whatever_has_channels(shape: tuple[int, ...]) -> None:
    x, (mean, var, weight, bias) = torch.randn(shape), numbers(6)
    with torch.no_grad():
        ours = normalised(x, mean, var, weight, bias, 1e-3)
    theirs = F.batch_norm(x, mean, var, weight, bias, eps=1e-3)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_reduced_precision_stays_reduced() -> None:
    x = torch.randn(MANY).to(torch.bfloat16, memory_format=torch.channels_last)
    mean, var, weight, bias = numbers(6)
    assert normalised(x, mean, var, weight, bias, 1e-3).dtype == torch.bfloat16


def test_gradients_flow_where_they_are_asked_for() -> None:
    x = torch.randn(MANY).contiguous(memory_format=torch.channels_last)
    mean, var, weight, bias = numbers(6)
    output = normalised(x, mean, var, weight.requires_grad_(), bias, 1e-3)
    assert output.requires_grad


@torch.no_grad()
def test_overwrites_only_if_told() -> None:
    x = torch.randn(MANY).contiguous(memory_format=torch.channels_last)
    before, (mean, var, weight, bias) = x.clone(), numbers(6)
    fresh = normalised(x, mean, var, weight, bias, 1e-3)
    assert torch.equal(x, before)
    assert normalised(x, mean, var, weight, bias, 1e-3, out=x).data_ptr() == x.data_ptr()
    assert torch.equal(x, fresh)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of_images", [False, True])
def test_scales_and_shifts(layout: torch.memory_format, of_images: bool) -> None:
    x = torch.randn(4, 6, 5, 7).contiguous(memory_format=layout)
    scale, shift = torch.randn(2, 4, 6) if of_images else torch.randn(2, 6)
    wide = (..., None, None)
    torch.testing.assert_close(
        scaled_and_shifted(x, scale, shift), x * scale[wide] + shift[wide], rtol=1e-5, atol=1e-5
    )
