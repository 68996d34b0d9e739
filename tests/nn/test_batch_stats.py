"""Normalisation by the batch's own statistics, and several passes in one batch."""

import pytest
import torch
from torch import Tensor, nn

from rotta.nn.batch_stats import BatchStatNorm, separate_passes, trainable_on_batch_statistics


def draws(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * 3 + 1


def layer_for(channels: int = 3) -> BatchStatNorm:
    return BatchStatNorm(draws(channels, seed=1), draws(channels, seed=2), 1e-5)


def test_batch_statistics_ignore_the_mode() -> None:
    bn = nn.BatchNorm2d(3)
    x = draws(8, 3, 4, 4).float()
    layer = BatchStatNorm.from_batchnorm(bn)
    assert torch.equal(layer.eval()(x), layer.train()(x))
    assert torch.allclose(layer(x), bn.train()(x))


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1)])
def test_one_value_per_channel_gives_beta(shape: tuple[int, ...]) -> None:
    layer = BatchStatNorm(torch.full((3,), 2.0), torch.tensor([1.0, 2.0, 3.0]), 1e-5)
    assert layer(torch.rand(shape)).flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(4, 3, 5, 5), (4, 3), (2, 3, 7), (1, 3, 5, 5), (1, 3)])
@pytest.mark.parametrize("passes", [1, 2, 32])
def test_passes_together_are_passes_apart(shape: tuple[int, ...], passes: int) -> None:
    layer = layer_for()
    # each pass has a level of its own: common statistics would show
    batches = [draws(*shape, seed=i) + 5 * i for i in range(passes)]
    with separate_passes(layer, passes):
        together = layer(torch.cat(batches))
    assert torch.allclose(together, torch.cat([layer(x) for x in batches]), atol=1e-6)


def test_passes_keep_the_layout() -> None:
    layer, x = layer_for(), draws(6, 3, 5, 4).contiguous(memory_format=torch.channels_last)
    with separate_passes(layer, 3):
        output = layer(x)
    assert output.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(output, torch.cat([layer(one) for one in x.chunk(3)]))


def test_passes_end_with_the_block_whatever_happens() -> None:
    net = nn.Sequential(layer_for(), nn.Sequential(layer_for()))

    def fail_within() -> None:
        with separate_passes(net, 4):
            assert net[0].passes == net[1][0].passes == 4  # type: ignore[index]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_within()
    assert net[0].passes == net[1][0].passes == 1  # type: ignore[index]


def test_a_layer_without_affine_parameters_gets_them() -> None:
    bn = nn.BatchNorm2d(2, affine=False, track_running_stats=False).eval()
    layer = BatchStatNorm.from_batchnorm(bn)
    assert layer.weight.tolist() == [1, 1]
    assert layer.bias.tolist() == [0, 0]
    assert not layer.training


def test_gamma_and_beta_alone_are_trained() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.GroupNorm(2, 4))
    copy, trained = trainable_on_batch_statistics(net)
    flags = {name: p.requires_grad for name, p in copy.named_parameters()}
    assert [name for name, flag in flags.items() if flag] == [
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
    ]
    assert len(trained) == 4
    assert all(p.requires_grad for p in net.parameters())


def test_a_network_without_norms_has_nothing_to_train() -> None:
    with pytest.raises(ValueError, match="use method='lame'"):
        trainable_on_batch_statistics(nn.Conv2d(3, 4, 1))
