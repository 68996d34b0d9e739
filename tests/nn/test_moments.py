"""Means and variances beside the obvious ones."""

import pytest
import torch

from rotta.nn.moments import channel_moments, instance_moments

LARGE = [(64, 16, 32, 32), (65, 16, 17, 17), (90, 3, 32, 32), (40, 32, 16, 20), (20, 64, 16, 16)]


def values(*shape: int) -> torch.Tensor:
    """Each channel and each pixel has a level of its own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    return x + 3 * torch.randn(1, *shape[1:], generator=generator, dtype=torch.float64) + 5


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (2, 16, 1, 1), *LARGE])
def test_moments_of_channels(shape: tuple[int, ...], layout: torch.memory_format) -> None:
    x = values(*shape).contiguous(memory_format=layout)
    var, mean = channel_moments(x)
    expected_var, expected_mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
    assert torch.allclose(mean, expected_mean)
    assert torch.allclose(var, expected_var)


def test_a_part_of_a_batch_has_moments_of_its_own() -> None:
    """It begins in the middle of the memory of the whole."""
    x = values(130, 16, 16, 16).contiguous(memory_format=torch.channels_last)
    var, mean = channel_moments(x[1:])
    expected_var, expected_mean = torch.var_mean(x[1:], dim=(0, 2, 3), correction=0)
    assert torch.allclose(mean, expected_mean)
    assert torch.allclose(var, expected_var)


def test_single_precision_withstands_a_distant_mean() -> None:
    x = (values(64, 16, 32, 32).float() + 1000).contiguous(memory_format=torch.channels_last)
    var, mean = channel_moments(x)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(0, 2, 3), correction=0)
    assert torch.allclose(mean.double(), expected_mean, rtol=1e-6)
    assert torch.allclose(var.double(), expected_var, rtol=1e-4)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_moments_of_instances(layout: torch.memory_format) -> None:
    x = values(4, 3, 5, 5).contiguous(memory_format=layout)
    var, mean = instance_moments(x)
    expected_var, expected_mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    assert torch.allclose(mean, expected_mean)
    assert torch.allclose(var, expected_var)
