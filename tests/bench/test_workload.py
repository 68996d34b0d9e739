"""Networks and images to measure on."""

import pytest
import torch

from rotta.bench.workload import IMAGE_SIDES, make_workload
from rotta.models import ARCHITECTURES, load_source


def test_every_architecture_has_a_side() -> None:
    assert list(IMAGE_SIDES) == list(ARCHITECTURES)


def test_random_weights_are_the_same_every_time_and_give_ordinary_numbers() -> None:
    one, two = (make_workload("wrn-10-1", num_classes=4, largest_batch=100) for _ in range(2))
    assert one.images.shape == (100, 3, 32, 32)
    assert torch.equal(one.images, two.images)
    assert 0 <= one.images.min() < one.images.max() <= 1
    assert torch.equal(one.net(one.images), two.net(two.images))
    assert one.num_classes == one.net(one.images).shape[1] == 4
    assert one.net(one.images).std() < 10
    assert not any(module.training for module in one.net.modules())


def test_everything_is_channels_last() -> None:
    load = make_workload("wrn-10-1", image_size=16)
    form = torch.channels_last
    for tensor in (*load.batches(1), *load.batches(8), load.net.state_dict()["conv1.weight"]):
        assert tensor.is_contiguous(memory_format=form)


def test_a_source_keeps_its_weights_and_statistics() -> None:
    load = make_workload("digits")
    source = load_source("digits").state_dict()
    assert all(torch.equal(source[name], now) for name, now in load.net.state_dict().items())
    assert load.images.shape[-1] == 32


def test_batches_are_whole_and_different() -> None:
    first, second, *rest = make_workload("wrn-10-1", image_size=8).batches(24)
    assert len(first) == len(second) == 24
    assert not rest
    assert not torch.equal(first, second)


def test_mistakes_are_answered() -> None:
    with pytest.raises(ValueError, match="did you mean 'wrn-40-2'"):
        make_workload("wrn-40")
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        make_workload("digit")
    with pytest.raises(ValueError, match="10 classes apart: leave --classes out"):
        make_workload("digits", num_classes=7)
