"""Read and write weight files, without ever running what is in them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors
from torch import Tensor, nn

from rotta.atomic import replacing

Weights = dict[str, Tensor]

SUFFIXES = (".safetensors", ".pt", ".pth", ".tar")
"""Endings of the files that `read_weights` reads."""

SCALE = "::scale"
_WRAPPERS = ("state_dict", "model", "model_state_dict", "net")
_DEEPEST_WRAPPING = 4
_PREFIXES = ("module.", "_orig_mod.", "model.", "normalize.")
# what wrappers that normalise in front of a network call the two buffers
_RENAMED = {"mean": "mu", "std": "sigma"}


def read_weights(path: Path) -> tuple[Weights, dict[str, str]]:
    """Read a weight file of this package, RobustBench, torchvision or a training script.

    Wrappers such as ``{"state_dict": …}`` and prefixes such as ``module.`` are taken off, int8
    weights are multiplied by their scales, floating-point numbers become float32.

    Args:
        path: A ``.safetensors``, ``.pt``, ``.pth`` or ``.tar`` file.

    Returns:
        Tensors on the CPU by name, and the file's metadata (empty for anything but safetensors).

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is cut off, holds code, or holds something other than weights.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "tiny.safetensors"
        >>> save_weights(file, nn.Linear(2, 1, bias=False), {"arch": "tiny"})
        >>> weights, metadata = read_weights(file)
        >>> weights["weight"].shape, metadata["arch"]
        (torch.Size([1, 2]), 'tiny')
    """
    metadata = read_metadata(path)
    content = _read_safetensors(path) if _is_safetensors(path) else _read_torch(path)
    return _float32(_rescale(_rename(_unwrap(content, path), path), path), path), metadata


def read_metadata(path: Path) -> dict[str, str]:
    """What a weight file says of itself, without reading the weights.

    Args:
        path: As of :func:`read_weights`.

    Returns:
        Facts by name; empty for anything but safetensors.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It has another ending, or is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no weight file at {path}")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} should end in one of {', '.join(SUFFIXES)}")
    if not _is_safetensors(path):
        return {}
    with _opened(path) as file:
        metadata: dict[str, str] = file.metadata() or {}
        return metadata


def save_weights(
    path: Path, model: nn.Module, metadata: Mapping[str, str], *, half: bool = False
) -> None:
    """Write a model's parameters and buffers as safetensors; the file is whole or not there.

    Args:
        path: Where to; should end in ``.safetensors``.
        model: Whose weights.
        metadata: Facts for the reader, such as ``arch`` and ``classes``.
        half: Store floating-point numbers in 16 bits.

    Raises:
        ValueError: Another ending, or a number too large for 16 bits.
    """
    if path.suffix != ".safetensors":
        raise ValueError(f"weights are saved as safetensors: end {path} in .safetensors")
    stored = {name: _stored(name, x, half) for name, x in model.state_dict().items()}
    with replacing(path) as temporary:
        # not by save_file: its files could be read by their owner alone
        temporary.write_bytes(safetensors(stored, metadata=dict(metadata)))


def fits_half(model: nn.Module) -> bool:
    """Whether all its numbers can be stored in 16 bits; variances of a wild training cannot."""
    floating = (x for x in model.state_dict().values() if x.is_floating_point())
    return all(bool(x.half().isfinite().all()) for x in floating)


def _stored(name: str, x: Tensor, half: bool) -> Tensor:
    if half and x.is_floating_point():
        x = x.half()
        if not x.isfinite().all():
            raise ValueError(f"{name} does not fit into 16 bits: save with half=False")
    # clone: safetensors refuses tensors that share memory or are laid out channels-last
    return x.detach().cpu().clone(memory_format=torch.contiguous_format)


def _is_safetensors(path: Path) -> bool:
    return path.suffix.lower() == ".safetensors"


def _read_safetensors(path: Path) -> object:
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({error}): fetch or save it again"
        ) from error


def _read_torch(path: Path) -> object:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a foreign file can fail in any way at all
        # PyTorch's own message is left out: it advises to load such a file unsafely
        raise ValueError(
            f"{path} was not loaded: it is cut off, no PyTorch file, or holds code besides "
            "weights. Fetch it again, or save its state_dict as safetensors"
        ) from error


def _unwrap(content: object, path: Path) -> Mapping[str, Tensor]:
    for _ in range(_DEEPEST_WRAPPING):  # a file can hold itself
        if not isinstance(content, Mapping):
            break
        known = [content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)]
        others = [value for value in content.values() if _is_weights(value)]
        if not known and len(others) != 1:
            break
        content = known[0] if known else others[0]
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path} holds no weights: expected tensors by name")
    foreign = [
        key for key, x in content.items() if not (isinstance(key, str) and isinstance(x, Tensor))
    ]
    if foreign:
        raise ValueError(
            f"{path} holds more than weights: {foreign[0]!r} is not a tensor. Save the weights "
            "alone, torch.save(model.state_dict(), …), or under the key 'state_dict'"
        )
    return content


def _is_weights(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(isinstance(x, Tensor) for x in value.values())
    )


def _rename(content: Mapping[str, Tensor], path: Path) -> Weights:
    weights: Weights = {}
    for name, x in _without_common_prefix(content).items():
        own = _own_name(name)
        if own in weights:
            raise ValueError(f"{path} holds {own!r} twice, under different prefixes")
        weights[own] = x
    return weights


def _without_common_prefix(content: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """``backbone.`` gone if all names begin so: an attribute of a larger model was saved."""
    prefix = next(iter(content)).partition(".")[0] + "."
    rest = {name.removeprefix(prefix): x for name, x in content.items() if name.startswith(prefix)}
    # a lone layer, whose names would be bare, keeps its name
    if len(rest) < len(content) or not any("." in name for name in rest):
        return content
    return _without_common_prefix(rest)


def _own_name(name: str) -> str:
    prefix = next((p for p in _PREFIXES if name.startswith(p)), None)
    return _RENAMED.get(name, name) if prefix is None else _own_name(name.removeprefix(prefix))


def _rescale(weights: Weights, path: Path) -> Weights:
    """Multiply int8 weights by their scales, which lie beside them as ``<name>::scale``."""
    plain: Weights = {}
    for name, x in weights.items():
        if name.endswith(SCALE):
            if name.removesuffix(SCALE) not in weights:
                raise ValueError(f"{path} holds {name!r} but not the weights that it scales")
            continue
        scale = weights.get(name + SCALE)
        if scale is None and x.dtype == torch.int8:
            raise ValueError(f"{path} holds {name!r} in int8 without {name + SCALE!r}")
        plain[name] = x if scale is None else x.float() * _per_output(scale, x, name, path)
    return plain


def _per_output(scale: Tensor, x: Tensor, name: str, path: Path) -> Tensor:
    """One scale per output channel, shaped to multiply the weights."""
    if x.ndim == 0 or scale.numel() != len(x):
        raise ValueError(
            f"{path} scales {name!r} of shape {tuple(x.shape)} by {tuple(scale.shape)}: "
            "expected one number per output channel"
        )
    return scale.float().reshape(-1, *[1] * (x.ndim - 1))


def _float32(weights: Weights, path: Path) -> Weights:
    plain = {name: x.float() if x.is_floating_point() else x for name, x in weights.items()}
    for name, x in plain.items():
        if x.is_floating_point() and not x.isfinite().all():
            raise ValueError(f"{path} holds NaN or infinite numbers in {name!r}: fetch it again")
    return plain
