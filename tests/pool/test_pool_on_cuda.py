"""On a GPU a pool is to each stream what a RoTTA of its own is there."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from separate_models import SMALL, SeparateModels, check_same_state, images, same_logits, small_net

from rotta.nn.augment import drawn_strong_views, strong_view_of_each
from rotta.pool import MemoryStore, Request, StreamPool

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CLASSES = 4
CLOSE = 1e-5


@pytest.fixture
def in_float32() -> Iterator[None]:
    """No TF32, by which convolutions of a GPU differ from those of a CPU."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize("options", [{}, {"guard": True}], ids=["plain", "guarded"])
def test_streams_are_those_of_separate_models(options: dict[str, Any]) -> None:
    net = small_net().cuda()
    pool = StreamPool(net, CLASSES, resident=3, store=MemoryStore(), **SMALL, **options)
    separate = SeparateModels(net, CLASSES, **SMALL, **options)
    for turn in range(20):
        requests = [
            Request(f"s{(turn + i) % 5}", images(2 + i, 3 * turn + i).cuda()) for i in range(3)
        ]
        assert same_logits(pool(requests), separate(requests), CLOSE)
    for name, model in separate.models.items():
        check_same_state(pool, name, model.cpu(), CLOSE)


def test_recordings_are_made_anew_when_the_table_has_grown() -> None:
    net = small_net().cuda()
    pool, separate = StreamPool(net, CLASSES, **SMALL), SeparateModels(net, CLASSES, **SMALL)
    for turn in range(12):
        x = images(5, turn).cuda()
        requests = [Request("a", x[:2]), Request("b", x[2:])]
        assert same_logits(pool(requests), separate(requests), CLOSE)
        if turn == 6:
            pool([Request(f"another {i}", images(1, i).cuda()) for i in range(100)])


# kernels of our own serve float32, where numbers lie as they expect them: with 4 + 4 channels
@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("last_channels", [4, 6])
def test_banks_of_all_sizes_are_learnt_from(last_channels: int) -> None:
    net = small_net(last_channels=last_channels).float().cuda()
    options = SMALL | {"capacity": 20, "lr": 1e-3}
    pool, separate = StreamPool(net, CLASSES, **options), SeparateModels(net, CLASSES, **options)
    for turn in range(40):
        requests = [Request(f"s{i}", images(1 + i, 3 * turn + i).float().cuda()) for i in range(3)]
        assert same_logits(pool(requests), separate(requests), 1e-4)
    for name, model in separate.models.items():
        assert pool.info(name).updates == model.updates > 5


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_strong_views_of_several_banks_are_those_of_each(layout: torch.memory_format) -> None:
    banks = [images(7, seed, side=9).float().cuda().to(memory_format=layout) for seed in range(3)]
    together = strong_view_of_each(
        torch.stack(banks), [torch.Generator().manual_seed(seed) for seed in range(3)]
    )
    for seed, (bank, views) in enumerate(zip(banks, together, strict=True)):
        (alone,) = drawn_strong_views(bank, torch.Generator().manual_seed(seed))
        torch.testing.assert_close(views, alone, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("in_float32")
def test_a_state_goes_from_one_device_to_the_other() -> None:
    here, there = (StreamPool(net, CLASSES, **SMALL) for net in (small_net(), small_net().cuda()))
    for seed in range(5):
        here([Request("a", images(5, seed))])
    there.restore("a", here.state("a"))
    # then each draws the noise of its strong views on its own device, and learns a little otherwise
    for seed, close in zip(range(5, 10), [CLOSE, *[0.01] * 4], strict=True):
        (one,) = here([Request("a", images(5, seed))])
        (two,) = there([Request("a", images(5, seed).cuda())])
        assert two.logits is not None
        assert same_logits([one], [two.logits.cpu()], close)
