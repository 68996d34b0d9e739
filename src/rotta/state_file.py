"""States in one file: tensors as tensors, all else as JSON, and nothing that could be run."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from
from safetensors.torch import save as safetensors
from torch import Tensor

from rotta.atomic import clear_away, replacing

FORMAT = 1
"""Of the files that are written. Files of a higher number are refused."""

_LENGTH = 8  # bytes at the beginning that say how long the header is
_FIELD = b'"sha256":"'  # inside of strings a quotation mark has a backslash before it
_UNSET = b"0" * 64


def write_state(path: Path, kind: str, content: Any) -> None:
    """Write a state; the file is whole or not there.

    A safetensors file, whose metadata hold the format's number, the kind, the structure of the
    content as JSON, and a SHA-256 over every other byte of the file.

    Args:
        path: Where to.
        kind: Of which kind it is: one for each meaning that a content may have.
        content: Dictionaries, lists, tuples, numbers, strings, None and tensors, however nested.

    Raises:
        OSError: It cannot be written; what was there before is untouched.
        TypeError: Something in it is of another type.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "a.safetensors"
        >>> write_state(file, "example", {"seen": 3, 0: (torch.ones(2), None)})
        >>> read_state(file, "example")
        {'seen': 3, 0: (tensor([1., 1.]), None)}
    """
    pieces = _pieces(kind, content)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise OSError(
            f"{path} could not be saved ({error}): make room there or give another place. What "
            "was there before is untouched"
        ) from error
    clear_away(path)


def read_state(path: Path, kind: str, remedy: str | None = None) -> Any:
    """Read what :func:`write_state` wrote, tensors on the CPU.

    Args:
        path: Of the file.
        kind: Which it should be.
        remedy: What to do if it is not, where something better is known than to look for another
            one.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is damaged, of another kind, of a newer version, or something else; the
            message says what to do.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: check the name")
    return state_from_bytes(path.read_bytes(), kind, str(path), remedy)


def state_to_bytes(kind: str, content: Any) -> bytes:
    """What :func:`write_state` would write into a file.

    Example:
        >>> data = state_to_bytes("example", {"seen": 3})
        >>> state_from_bytes(data, "example", "the data")
        {'seen': 3}
    """
    return b"".join(_pieces(kind, content))


def state_from_bytes(data: bytes, kind: str, named: str, remedy: str | None = None) -> Any:
    """What :func:`read_state` would read from a file that holds these bytes.

    Args:
        data: All of them.
        kind: Which it should be.
        named: What to call the data in messages.
        remedy: What to say that one should do, as for :func:`read_state`.

    Raises:
        ValueError: As :func:`read_state`.
    """
    metadata = _metadata(data, named, remedy)
    number = str(metadata["rotta"])
    if number.isdecimal() and int(number[:9]) > FORMAT:
        raise ValueError(
            f"{named} has format {number[:9]}, and this version of rotta reads up to {FORMAT}: "
            "update rotta"
        )
    try:
        place = _place_of_checksum(memoryview(data))
        if data[place : place + len(_UNSET)] != _digest(memoryview(data), place):
            raise ValueError("its checksum differs")
        structure, tensors = json.loads(metadata["content"]), tensors_from(data)
        content, found = _decoded(structure, tensors), metadata["kind"]
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise ValueError(
            f"{named} is damaged ({error}): {remedy or 'use an earlier copy of it, or start anew'}"
        ) from error
    if found != kind:
        raise ValueError(f"{named} holds a {found}, not a {kind}: {remedy or 'give another file'}")
    return content


def _pieces(kind: str, content: Any) -> tuple[memoryview, bytes, memoryview]:
    """The bytes of a state, signed: of what may be large there is no second copy."""
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_encoded(content, kind, tensors))
    metadata = {"rotta": str(FORMAT), "kind": kind, "content": structure, "sha256": _UNSET.decode()}
    unsigned = memoryview(safetensors(tensors, metadata))
    place = _place_of_checksum(unsigned)
    return unsigned[:place], _digest(unsigned, place), unsigned[place + len(_UNSET) :]


def _metadata(data: bytes, named: str, remedy: str | None) -> dict[str, Any]:
    """What the header of a file says about the rest."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    try:
        if end > len(data):
            raise ValueError("it is cut off")
        metadata = json.loads(data[_LENGTH:end])["__metadata__"]
        if not isinstance(metadata, dict) or "rotta" not in metadata:
            raise ValueError("it is something else")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{named} is no whole file that rotta has saved ({error}): "
            f"{remedy or 'give another one, or an earlier copy of it'}"
        ) from error
    return metadata


def _place_of_checksum(data: memoryview) -> int:
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    place = bytes(data[:end]).find(_FIELD)
    if place < 0:
        raise ValueError("it has no checksum")
    return place + len(_FIELD)


def _digest(data: memoryview, place: int) -> bytes:
    """SHA-256 as hexadecimal digits, over all bytes but those in which it is written itself."""
    digest = hashlib.sha256(data[:place])
    digest.update(_UNSET)
    digest.update(data[place + len(_UNSET) :])
    return digest.hexdigest().encode()


def _encoded(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """As JSON; tensors go to ``tensors``, named after their place."""
    if isinstance(value, Tensor):
        assert name not in tensors, f"two tensors are called {name}"
        # clone: tensors that share memory are refused by the format
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        pairs = ((key, _encoded(item, f"{name}/{key}", tensors)) for key, item in value.items())
        return {"dict": [[_encoded(key, name, tensors), item] for key, item in pairs]}
    if isinstance(value, list | tuple):
        items = [_encoded(item, f"{name}/{i}", tensors) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    raise TypeError(f"{name} is of type {type(value).__name__}, which cannot be saved")


def _decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What :func:`_encoded` was given."""
    if isinstance(value, list):
        return [_decoded(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((how, what),) = value.items()
    if how == "tensor":
        return tensors[what]
    if how == "float":
        return float(what)
    if how == "tuple":
        return tuple(_decoded(item, tensors) for item in what)
    if how == "dict":
        return {_decoded(key, tensors): _decoded(item, tensors) for key, item in what}
    raise ValueError(f"it holds something called {how!r:.40}")
