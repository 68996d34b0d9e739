"""Put weights into a network: all of them or none, and say which network they are for."""

from collections.abc import Iterator, Mapping
from functools import cache

import torch
from torch import Tensor

from rotta.models.architectures import ARCHITECTURES
from rotta.models.classifier import Classifier
from rotta.registry import lookup

Shapes = Mapping[str, torch.Size]


def load_into(
    model: Classifier, weights: Mapping[str, Tensor], *, other_classes: bool = False
) -> None:
    """Copy weights into a network, after all of them were found to fit.

    Normalisation buffers and ``num_batches_tracked`` may be absent: the network keeps its own.
    The duplicate ``sub_block1.*`` of some RobustBench files is passed over.

    Args:
        model: The network; keeps its device and dtype.
        weights: Tensors by name, as `read_weights` returns them.
        other_classes: Accept a head with another number of classes; the network then keeps its
            own head.

    Raises:
        ValueError: Something is missing, unexpected or of another shape. The message names the
            architectures that the weights fit. The network is unchanged.

    Example:
        >>> from rotta.models.architectures import build
        >>> small, wide = build("wrn-10-1", 10), build("wrn-40-2", 10)
        >>> load_into(small, wide.state_dict())
        Traceback (most recent call last):
        ...
        ValueError: these weights are for wrn-40-2 (10 classes), not for wrn-10-1 (10 classes)
    """
    own = model.state_dict()
    expected, given = _shapes(own), _shapes(weights)
    new_head = other_classes and _classes(given, model.head_name) != model.head.out_features
    if new_head:
        expected = _with_classes(expected, model.head_name, _classes(given, model.head_name))
    problems = list(_problems(expected, given))
    if problems:
        raise ValueError(_explanation(given, expected, problems))
    kept = _head_keys(model.head_name) if new_head else ()
    with torch.no_grad():
        for name in given:
            if name not in kept:
                own[name].copy_(weights[name])


def fitting(weights: Mapping[str, Tensor]) -> list[tuple[str, int]]:
    """The architectures that ``weights`` fit by names and shapes, with their number of classes.

    Example:
        >>> from rotta.models.architectures import build
        >>> fitting(build("wrn-10-1", 4).state_dict())
        [('wrn-10-1', 4)]
    """
    return _fitting(_shapes(weights))


def count_classes(arch: str, weights: Mapping[str, Tensor]) -> int:
    """Number of classes of the head that ``arch`` would take from ``weights``; 0 without one."""
    head_name, _ = _layout(arch)
    return _classes(_shapes(weights), head_name)


def _shapes(weights: Mapping[str, Tensor]) -> Shapes:
    return {name: x.shape for name, x in weights.items() if not name.startswith("sub_block1.")}


def _fitting(given: Shapes) -> list[tuple[str, int]]:
    found = []
    for arch in ARCHITECTURES:
        head_name, layout = _layout(arch)
        classes = _classes(given, head_name)
        if not any(_problems(_with_classes(layout, head_name, classes), given)):
            found.append((arch, classes))
    return found


@cache
def _layout(arch: str) -> tuple[str, Shapes]:
    """Name of the head and shape of every tensor, for one class; takes no memory for weights."""
    with torch.device("meta"):
        model = lookup(ARCHITECTURES, arch, "architecture")(1)
    return model.head_name, _shapes(model.state_dict())


def _head_keys(head_name: str) -> tuple[str, str]:
    return f"{head_name}.weight", f"{head_name}.bias"


def _classes(given: Shapes, head_name: str) -> int:
    """Rows of the head, 0 if there is none."""
    shape = given.get(f"{head_name}.weight", torch.Size())
    return shape[0] if len(shape) == 2 else 0


def _with_classes(shapes: Shapes, head_name: str, classes: int) -> Shapes:
    weight, bias = _head_keys(head_name)
    features = shapes[weight][1]
    return {**shapes, weight: torch.Size((classes, features)), bias: torch.Size((classes,))}


def _problems(expected: Shapes, given: Shapes) -> Iterator[str]:
    for name, shape in expected.items():
        if name not in given:
            if not _optional(name):
                yield f"{name} is missing"
        elif given[name] != shape:
            yield f"{name} has shape {tuple(given[name])}, not {tuple(shape)}"
    yield from (f"{name} is unexpected" for name in given if name not in expected)


def _optional(name: str) -> bool:
    return name in ("mu", "sigma") or name.endswith(".num_batches_tracked")


def _explanation(given: Shapes, expected: Shapes, problems: list[str]) -> str:
    fits = _fitting(given)
    if fits:
        return f"these weights are for {_names(fits)}, not for {_names(_fitting(expected))}"
    more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
    return (
        f"these weights fit no architecture of this package ({', '.join(ARCHITECTURES)}); "
        f"for this network: {'; '.join(problems[:4])}{more}"
    )


def _names(fits: list[tuple[str, int]]) -> str:
    return " or ".join(f"{arch} ({classes} classes)" for arch, classes in fits) or "this network"
