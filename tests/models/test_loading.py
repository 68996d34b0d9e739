import pytest
import torch

from rotta.models import ARCHITECTURES, build
from rotta.models.classifier import Classifier
from rotta.models.loading import fitting, load_into


def _snapshot(model: Classifier) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in model.state_dict().items()}


def _unchanged(model: Classifier, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_each_architecture_recognises_its_own_weights(arch: str) -> None:
    with torch.device("meta"):
        weights = ARCHITECTURES[arch](23).state_dict()
    assert fitting(weights) == [(arch, 23)]


@pytest.mark.parametrize(
    ("arch", "classes", "named"),
    [("wrn-40-2", 10, r"wrn-40-2 \(10"), ("wrn-10-1", 4, r"wrn-10-1 \(4"), ("resnet-18", 9, "-18")],
)
def test_weights_of_another_network_name_it_and_change_nothing(
    arch: str, classes: int, named: str
) -> None:
    model = build("wrn-10-1", 10)
    before = _snapshot(model)
    with pytest.raises(ValueError, match=f"are for .*{named}.* not for wrn-10-1 \\(10 classes\\)"):
        load_into(model, build(arch, classes, seed=5).state_dict())
    assert _unchanged(model, before)


def test_weights_of_no_known_network_list_the_differences_and_change_nothing() -> None:
    model = build("wrn-10-1", 10)
    before = _snapshot(model)
    weights = build("wrn-10-1", 10, seed=5).state_dict()
    del weights["bn1.weight"]
    weights["conv1.weight"] = torch.zeros(16, 1, 3, 3)
    weights["extra"] = torch.zeros(1)
    with pytest.raises(ValueError, match="fit no architecture") as caught:
        load_into(model, weights)
    for part in (
        "bn1.weight is missing",
        "conv1.weight has shape (16, 1, 3, 3), not (16, 3, 3, 3)",
        "extra is unexpected",
    ):
        assert part in str(caught.value)
    assert _unchanged(model, before)


def test_normalisation_and_counters_may_be_absent() -> None:
    given = build("resnet-18", 10, seed=5).state_dict()
    kept = {
        name: x
        for name, x in given.items()
        if name not in ("mu", "sigma") and not name.endswith("num_batches_tracked")
    }
    model = build("resnet-18", 10)
    mu = model.mu.clone()
    load_into(model, kept)
    assert torch.equal(model.mu, mu)
    assert torch.equal(model.state_dict()["layer4.1.bn2.weight"], kept["layer4.1.bn2.weight"])
    assert torch.equal(model.head.weight, kept["fc.weight"])


def test_duplicate_first_block_of_robustbench_files_is_passed_over() -> None:
    given = build("wrn-10-1", 10, seed=5).state_dict()
    duplicate = {
        name.replace("block1", "sub_block1"): x + 1
        for name, x in given.items()
        if name.startswith("block1.")
    }
    model = build("wrn-10-1", 10)
    load_into(model, {**duplicate, **given})
    assert _unchanged(model, given)


def test_other_classes_keep_the_fresh_head() -> None:
    given = build("wrn-10-1", 10, seed=5).state_dict()
    model = build("wrn-10-1", 4)
    head = model.head.weight.clone()
    with pytest.raises(ValueError, match="10 classes"):
        load_into(model, given)
    load_into(model, given, other_classes=True)
    assert torch.equal(model.head.weight, head)
    assert torch.equal(model.state_dict()["conv1.weight"], given["conv1.weight"])


def test_other_classes_still_take_a_head_that_fits_and_refuse_none_at_all() -> None:
    given = build("wrn-10-1", 10, seed=5).state_dict()
    model = build("wrn-10-1", 10)
    load_into(model, given, other_classes=True)
    assert torch.equal(model.head.weight, given["fc.weight"])
    del given["fc.weight"]
    with pytest.raises(ValueError, match=r"fc\.weight is missing"):
        load_into(model, given, other_classes=True)
