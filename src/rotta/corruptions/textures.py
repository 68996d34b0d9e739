"""The pictures of ice behind ``frost``, and where they come from."""

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rotta import folders
from rotta.corruptions.draws import Draws, image_keys

_USED = 5
"""The original generator draws from the first five of its six pictures."""


@dataclass(frozen=True)
class ReducedTextures:
    """All pictures at one scale in one flat tensor, so that a batch of crops is one look-up."""

    levels: Tensor
    """(3, P), float32: the pixels of all pictures, row by row."""
    starts: Tensor
    heights: Tensor
    widths: Tensor


@dataclass(frozen=True, eq=False)
class Textures:
    """Pictures of ice, 8-bit RGB, each (H, W, 3)."""

    pictures: tuple[NDArray[np.uint8], ...]
    origin: str
    """``rotta-home``, ``rotta-cache``, ``folder``, ``imagecorruptions`` or ``procedural``."""

    @cached_property
    def md5(self) -> str:
        """Checksum over all pixels, for the record."""
        return hashlib.md5(b"".join(p.tobytes() for p in self.pictures)).hexdigest()

    @lru_cache(maxsize=8)  # noqa: B019  (textures live as long as the process)
    def reduced(self, scale: float, device: torch.device) -> ReducedTextures:
        """All pictures resized by ``scale``: bilinear, without antialiasing."""
        resized = [_resize(picture, scale) for picture in self.pictures]
        sizes = torch.tensor([image.shape[-2:] for image in resized])
        areas = sizes.prod(1)
        return ReducedTextures(
            levels=torch.cat([image.flatten(1) for image in resized], dim=1).to(device),
            starts=(areas.cumsum(0) - areas).to(device),
            heights=sizes[:, 0].to(device),
            widths=sizes[:, 1].to(device),
        )


def load_textures(folder: Path | None = None) -> Textures:
    """Find pictures of ice; the result's ``origin`` says which were found.

    Args:
        folder: A directory with pictures of your own. Without one, the first found of
            ``$ROTTA_HOME/data/frost``, those in the installed package ``imagecorruptions`` (its
            files are read, its code is not imported), and a procedural texture.

    Raises:
        ValueError: ``folder`` holds no usable picture.

    Example:
        >>> load_textures().origin != "folder"
        True
    """
    if folder is not None:
        return _read_folder(folder.resolve(), "folder")
    in_home = folders.home()
    for pictures in folders.places("data/frost"):
        if pictures.is_dir():
            ours = in_home is not None and pictures.is_relative_to(in_home)
            return _read_folder(pictures, "rotta-home" if ours else "rotta-cache")
    package = importlib.util.find_spec("imagecorruptions")  # finds it without running it
    for place in (package.submodule_search_locations or []) if package else []:
        if (Path(place) / "frost").is_dir():
            return _read_folder(Path(place) / "frost", "imagecorruptions")
    return _procedural()


@lru_cache
def _read_folder(folder: Path, origin: str) -> Textures:
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} with pictures of frost")
    files = sorted(f for f in folder.glob("*") if f.suffix.lower() in {".png", ".jpg", ".jpeg"})
    if not files:
        raise ValueError(f"no pictures of frost in {folder}: it needs .png or .jpg files")
    pictures = tuple(_read_picture(file) for file in files[:_USED])
    smallest = min(min(picture.shape[:2]) for picture in pictures)
    if smallest < 200:
        raise ValueError(f"pictures of frost must be at least 200 pixels a side: {folder}")
    return Textures(pictures, origin)


def _read_picture(file: Path) -> NDArray[np.uint8]:
    try:
        with Image.open(file) as picture:
            return np.asarray(picture.convert("RGB"))
    except OSError as error:
        raise ValueError(f"{file} is no picture that can be read: {error}") from error


def _resize(picture: NDArray[np.uint8], scale: float) -> Tensor:
    """(H, W, 3) to (3, h, w), float32, whole levels."""
    levels = torch.from_numpy(picture.copy()).permute(2, 0, 1).to(torch.float32)
    # the scale itself, not the ratio of whole sizes, says where to sample: at 0.2, every 5th pixel
    resized = F.interpolate(levels[None], scale_factor=scale, mode="bilinear")
    return resized[0].round_()


@lru_cache
def _procedural() -> Textures:
    """Five pictures of needles and patches of ice, for when no photographs are at hand."""
    return Textures(tuple(_ice(number) for number in range(_USED)), "procedural")


def _ice(number: int, height: int = 400, width: int = 600) -> NDArray[np.uint8]:
    """One picture: bright ridges where smooth noise crosses its mean, over cloudy patches."""
    draws = Draws(image_keys(number, torch.tensor([0]), "ice", 1))

    def smooth(rows: int, columns: int) -> Tensor:
        grid = draws.normal(1, rows, columns)
        return F.interpolate(grid, size=(height, width), mode="bicubic", align_corners=True)[0, 0]

    patches = smooth(4, 6) + 0.5 * smooth(10, 15)
    # needles: noise stretched along one axis, one family per direction
    needles = torch.stack([smooth(12, 90), smooth(60, 18), smooth(40, 60)]).abs()
    ridges = torch.exp(-4.0 * needles).amax(0)
    grain = 0.15 * smooth(200, 300)
    light = torch.sigmoid(1.2 * patches) * (0.35 + 0.9 * ridges) + grain * ridges
    light = 0.45 + 0.55 * light  # about as bright and as contrasty as the photographs
    tint = torch.tensor([0.8, 0.95, 1.0])[:, None, None]
    return (light.clamp(0, 1) * tint * 255).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
