import copy

import pytest
import torch
from torch import fx

from rotta.models import ARCHITECTURES, build
from rotta.models.classifier import IMAGENET_MEAN
from rotta.models.resnet import Bottleneck
from rotta.models.wide_resnet import WideResNet
from rotta.nn.fusion import fuse_relus
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import replace_batch_norms

PARAMETERS = [
    # in millions, as the papers and torchvision state them
    ("wrn-28-10", 10, 36.5),
    ("wrn-40-2", 10, 2.2),
    ("resnext-29", 100, 6.9),
    ("resnet-18", 1000, 11.69),
    ("resnet-50", 1000, 25.56),
    ("resnet-101", 1000, 44.55),
    ("efficientnet-lite0", 1000, 4.65),
]


@pytest.mark.parametrize(("arch", "classes", "millions"), PARAMETERS)
def test_number_of_parameters(arch: str, classes: int, millions: float) -> None:
    with torch.device("meta"):
        model = ARCHITECTURES[arch](classes)
    counted = sum(p.numel() for p in model.parameters()) / 1e6
    digits = len(str(millions).split(".")[1])
    assert round(counted, digits) == millions


@pytest.mark.parametrize("arch", ["wrn-10-1", "resnext-29", "resnet-18", "efficientnet-lite0"])
def test_logits_are_the_head_of_the_features_in_any_layout_and_batch(arch: str) -> None:
    model = build(arch, 7).eval()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features, logits, one = model.features(x), model(x), model(x[1:])
        assert features.shape == (2, model.head.in_features)
        assert logits.shape == (2, 7)
        assert torch.equal(model.head(features), logits)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        last = model(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(one, logits[1:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(last, logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_runs_and_names_its_head(arch: str) -> None:
    with torch.device("meta"):
        model = ARCHITECTURES[arch](7)
        assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)
        assert model.features(torch.rand(2, 3, 32, 32)).shape == (2, model.head.in_features)
    assert model.get_submodule(model.head_name) is model.head


def test_normalisation_is_inside() -> None:
    model = build("resnet-18", 3).eval()
    mean = torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1).expand(1, 3, 8, 8)
    assert model.normalise(mean).abs().max() < 1e-6
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(build("wrn-10-1", 3).normalise(x), x)


def test_colours_that_are_used_as_they_are_cost_no_pass_until_a_file_brings_others() -> None:
    model = build("wrn-10-1", 3)
    x = torch.rand(1, 3, 8, 8)
    assert model.normalise(x) is x
    assert model.normalise(x.half()).dtype == torch.float32, "the network's, as ever"
    brought = {**model.state_dict(), "sigma": torch.full((1, 3, 1, 1), 0.5)}
    model.load_state_dict(brought)
    assert torch.equal(model.normalise(x), x * 2)


def test_grey_images_become_coloured_as_they_would_by_other_colours() -> None:
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(build("wrn-10-1", 3).normalise(x), x.expand(2, 3, 8, 8))


def test_an_image_without_a_batch_becomes_one_as_it_would_by_other_colours() -> None:
    x = torch.rand(3, 8, 8)
    assert torch.equal(build("wrn-10-1", 3).normalise(x), x[None])


def test_compilers_and_exporters_take_a_network_whole() -> None:
    net = build("wrn-10-1", 3, seed=0).eval()
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        compiled = torch.compile(copy.deepcopy(net), fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), net(x))
        exported = torch.export.export(copy.deepcopy(net), (x,)).module()
        torch.testing.assert_close(exported(x), net(x))


@pytest.mark.parametrize("number", ["mu", "sigma"])
def test_a_traced_network_asks_for_its_colours_anew_each_time(number: str) -> None:
    """What was true of the numbers when it was traced must not outlive them."""
    net = build("wrn-10-1", 3, seed=0).eval()
    traced = fuse_relus(replace_batch_norms(copy.deepcopy(net), RobustBatchNorm.from_batchnorm))
    assert isinstance(traced, fx.GraphModule)
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = net(x)
        torch.testing.assert_close(traced(x), before)
        for model in (net, traced):
            model.get_buffer(number).fill_(0.5)
        assert not torch.allclose(net(x), before)
        torch.testing.assert_close(traced(x), net(x))


def test_same_seed_same_weights_and_global_randomness_untouched() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (build("wrn-10-1", 10, seed=s) for s in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_efficientnet_pads_like_tensorflow() -> None:
    """At stride 2 a window starts on the first pixel: the odd zero lies right and below."""
    model = build("efficientnet-lite0", 2).eval()
    stem = model.get_submodule("_conv_stem")
    seen: list[torch.Tensor] = []
    stem.register_forward_hook(lambda _m, inputs, _out: seen.append(inputs[0]))
    x = torch.rand(1, 3, 32, 32)
    model(x)
    assert torch.equal(seen[0][:, :, :32, :32], model.normalise(x))
    assert seen[0].shape[2:] == (33, 33)
    assert not seen[0][:, :, 32].any()
    assert not seen[0][:, :, :, 32].any()


def test_bottleneck_stride_is_on_the_3x3_convolution() -> None:
    with torch.device("meta"):
        model = ARCHITECTURES["resnet-50"](10)
    block = model.get_submodule("layer2.0")
    assert isinstance(block, Bottleneck)
    assert (block.conv1.stride, block.conv2.stride) == ((1, 1), (2, 2))


def test_unknown_architecture_names_near_matches() -> None:
    with pytest.raises(ValueError, match="did you mean 'wrn-28-10'"):
        build("wrn-28-1O", 10)


def test_no_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one class"):
        build("wrn-10-1", 0)


def test_impossible_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="6n \\+ 4"):
        WideResNet(depth=11, widen=1, num_classes=10)
