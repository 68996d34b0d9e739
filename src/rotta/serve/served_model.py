"""The network that a server serves, and what it expects of images."""

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from rotta.datasets.cifar import CIFARS
from rotta.datasets.digits import SIDE as DIGITS_SIDE
from rotta.datasets.domains import fit
from rotta.models import SOURCES, load_source
from rotta.models.checkpoint import read_metadata
from rotta.models.classifier import Classifier
from rotta.models.sources import trained_size

_CIFAR_SIDE = 32
_SMALL = {"digits": DIGITS_SIDE, **dict.fromkeys(CIFARS, _CIFAR_SIDE)}
"""Datasets whose images are taken whole, and their side."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A network, its classes, and how images are brought to its size.

    Example:
        >>> model = load_model("digits")
        >>> model.side, model.classes[:3], model.fit(Image.new("RGB", (8, 8))).size
        (32, ('0', '1', '2'), (32, 32))
    """

    name: str
    net: Classifier
    """In evaluation mode."""
    classes: tuple[str, ...]
    """Their names; numbers where names are not known."""
    side: int
    """Of the square images, in pixels."""
    whole: bool
    """Whether images are taken whole, as small ones are, or have their borders cut off."""

    def fit(self, image: Image.Image) -> Image.Image:
        """Make an RGB image ``side`` × ``side``, as the dataset does that the network knows.

        Whole: the shorter side is made ``side`` long, and the centre cut out. Otherwise as
        :func:`rotta.datasets.domains.fit`, which cuts off an eighth more.
        """
        if not self.whole:
            return fit(image, self.side)
        scale = self.side / min(image.size)
        # rounding must not leave an axis shorter than the crop
        width, height = (max(self.side, round(length * scale)) for length in image.size)
        if (width, height) != image.size:
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - self.side) // 2, (height - self.side) // 2
        return image.crop((left, top, left + self.side, top + self.side))


def load_model(name_or_path: str, *, image_size: int | None = None) -> ServedModel:
    """A source model by name, or from a weight file, on the CPU.

    Args:
        name_or_path: As of :func:`rotta.load_source`.
        image_size: Side of the images, in pixels; that with which it was trained if left out.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file cannot be used, or it is not known for which size it was trained.
    """
    net = load_source(name_or_path)
    dataset = _trained_on(name_or_path)
    side = image_size or _SMALL.get(dataset or "") or trained_size(name_or_path)
    if side is None:
        raise ValueError(
            f"{name_or_path} does not say for images of which size it was trained: say it with "
            "--image-size, such as 224"
        )
    return ServedModel(
        name=Path(name_or_path).stem,
        net=net,
        classes=_class_names(dataset, net.head.out_features),
        side=side,
        whole=dataset in _SMALL,
    )


def _trained_on(name_or_path: str) -> str | None:
    if name_or_path in SOURCES:
        return SOURCES[name_or_path].dataset
    return read_metadata(Path(name_or_path).expanduser()).get("dataset")


def _class_names(dataset: str | None, count: int) -> tuple[str, ...]:
    if dataset in CIFARS and len(CIFARS[dataset].classes) == count:
        return CIFARS[dataset].classes
    return tuple(str(number) for number in range(count))
