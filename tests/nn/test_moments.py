"""Means and variances beside the obvious ones."""

import pytest
import torch

from rotta.nn.moments import channel_moments, instance_moments

pytestmark = pytest.mark.usefixtures("each_way")

LARGE = [(64, 16, 32, 32), (65, 16, 17, 17), (90, 3, 32, 32), (40, 32, 16, 20), (20, 64, 16, 16)]


def values(*shape: int) -> torch.Tensor:
    """Each channel and each pixel has a level of its own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    return x + 3 * torch.randn(1, *shape[1:], generator=generator, dtype=torch.float64) + 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (2, 16, 1, 1), *LARGE])
def test_moments_of_channels(
    shape: tuple[int, ...], layout: torch.memory_format, dtype: torch.dtype, each_way: str
) -> None:
    x = values(*shape).to(dtype).contiguous(memory_format=layout)
    var, mean = channel_moments(x)
    assert mean.dtype == var.dtype == dtype
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(0, 2, 3), correction=0)
    # PyTorch's sums lose digits where they are long
    rtol = 5e-5 if each_way == "PyTorch's kernels" and dtype == torch.float32 else 1e-5
    assert torch.allclose(mean.double(), expected_mean, rtol=rtol)
    assert torch.allclose(var.double(), expected_var, rtol=rtol)


def test_a_part_of_a_batch_has_moments_of_its_own() -> None:
    """It begins in the middle of the memory of the whole."""
    x = values(130, 16, 16, 16).float().contiguous(memory_format=torch.channels_last)
    var, mean = channel_moments(x[1:])
    expected_var, expected_mean = torch.var_mean(x[1:].double(), dim=(0, 2, 3), correction=0)
    assert torch.allclose(mean.double(), expected_mean)
    assert torch.allclose(var.double(), expected_var)


def test_single_precision_withstands_a_distant_mean(each_way: str) -> None:
    if each_way == "PyTorch's kernels":
        pytest.skip("theirs do not: the mean is off by some millionths")
    x = (values(64, 16, 32, 32).float() + 1000).contiguous(memory_format=torch.channels_last)
    var, mean = channel_moments(x)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(0, 2, 3), correction=0)
    assert torch.allclose(mean.double(), expected_mean, rtol=1e-6)
    assert torch.allclose(var.double(), expected_var, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (2, 33, 16, 16), (1, 2, 1, 1)])
def test_moments_of_instances(
    shape: tuple[int, ...], layout: torch.memory_format, dtype: torch.dtype
) -> None:
    x = values(*shape).to(dtype).contiguous(memory_format=layout)
    var, mean = instance_moments(x)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=(2, 3), correction=0, keepdim=True)
    assert mean.shape == var.shape == expected_var.shape
    assert torch.allclose(mean.double(), expected_mean)
    assert torch.allclose(var.double(), expected_var, atol=1e-6 if dtype == torch.float32 else 0)
