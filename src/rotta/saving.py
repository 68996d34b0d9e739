"""Methods on the disk: all that adapting has changed, and nothing that the network has anyway."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rotta.adapters import METHODS, Adapter
from rotta.adapters.common import defaults_of
from rotta.adapters.learnt import Learnt
from rotta.adapters.method_state import EXTRA
from rotta.adapters.methods import lookup_options
from rotta.models.checksum import checksum
from rotta.registry import lookup
from rotta.state_file import read_state, write_state
from rotta.versions import __version__

_KIND = "method"
_PRECISIONS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_NO_OPTIONS = ("method", "num_classes")  # in what a method says about how it was built


def save(model: Adapter, path: str | Path) -> None:
    """Write a method's state, to be continued with :func:`load`.

    Weights that the method shares with the network are not in the file, only their checksum. The
    file is written completely or not at all: if the process dies meanwhile, the old one is there.

    Args:
        model: A method of :data:`METHODS`, anywhere in a stream.
        path: Of the file; should end in ``.safetensors``.

    Raises:
        OSError: It cannot be written; what was there before is untouched.
        ValueError: The method is not in the table, so it could not be built again.

    Example:
        >>> import rotta, tempfile
        >>> net, x = rotta.load_source("digits"), torch.rand(100, 3, 32, 32)
        >>> model = rotta.adapt(net, "rotta")
        >>> _ = model(x)
        >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> save(model, path)
        >>> torch.equal(load(path, net)(x), model(x))
        True
    """
    content = {
        "rotta": __version__,
        "method": _name_of(model),
        "num_classes": model.num_classes,
        "options": _options_of(model),
        "free": _free_options_of(model),
        "network": checksum(model.source_net),
        "state": changed_state(model),
    }
    write_state(Path(path), _KIND, content)


def load(
    path: str | Path,
    net: nn.Module,
    *,
    guard: bool | None = None,
    bad_input: str | None = None,
    **options: Any,
) -> Adapter:
    """Build a saved method around its network, as if it had never stopped.

    Args:
        path: Of a file that :func:`save` wrote, on whichever device.
        net: The network around which the method was built, on the device where it shall go on.
        guard: Whether there shall be one from now on; as it was saved if left out. One that is
            switched on has seen nothing yet; with one that is switched off goes what it remembered,
            and the learning rate is again what it was at the start.
        bad_input: What is done about it from now on; as it was saved if left out.
        options: Others of the method that may change between two predictions, such as RoTTA's
            ``precision``; all are as they were saved if left out. A ``seed`` counts from the next
            ``reset()`` on.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, newer than this version, of another network or no such file at
            all; the message says what to do. The network is not changed in any case.

    Example:
        >>> import rotta, tempfile
        >>> net, path = rotta.load_source("digits"), Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> save(rotta.adapt(net, "tent"), path)
        >>> load(path, net, guard=True, bad_input="skip").bad_input
        'skip'
    """
    if isinstance(net, Adapter):
        raise ValueError(
            f"a {type(net).__name__} is no network: give the one in it, net.detach(), around which "
            "what the file holds is built anew"
        )
    path = Path(path)
    content = read_state(path, _KIND)
    try:
        name, num_classes, network = (content[n] for n in ("method", "num_classes", "network"))
        fixed, free, state = (content[n] for n in ("options", "free", "state"))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} lacks its {error}: use an earlier copy of it") from error
    whole = all(isinstance(part, Mapping) for part in (fixed, free, state))
    if not (whole and isinstance(name, str) and _is_seed(free.get("seed", 0))):
        raise ValueError(f"{path} holds no method's state: use an earlier copy of it")
    kind = lookup(METHODS, name, "method")
    lookup_options(name, {**fixed, **free})
    may_change = {option: None for option in defaults_of(kind) if option not in fixed}
    for option in options:
        lookup(may_change, option, f"option of {name} that may change")
    check_network(path, net, network)
    chosen = {**fixed, **free, **options}
    if bad_input is not None:
        chosen["bad_input"] = bad_input
    try:
        model: Adapter = _in_the_dtype_of(path, state, kind(net, num_classes, **chosen))
    except (TypeError, RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} holds a {name} that cannot be built here ({error})") from error
    restore_state(model, state)
    if guard is None or guard == fixed.get("guard", False):
        return model
    other = kind(net, num_classes, **{**chosen, "guard": guard})
    return _continued(model, _in_the_dtype_of(path, state, other))


def check_network(path: Path, net: nn.Module, saved: str) -> None:
    """Refuse a network that is not the one of which a file holds the changes.

    Args:
        path: Of the file, for the message.
        net: The network.
        saved: The checksum in the file.

    Raises:
        ValueError: It is another one.
    """
    own = checksum(net)
    if own == saved:
        return
    for dtype in _PRECISIONS:
        if checksum(net, dtype) == saved:
            raise ValueError(
                f"{path} was saved with this network in {dtype}, from which it was converted: give "
                f"it as it was then, net.to({dtype}). The method goes on in its own precision"
            )
    raise ValueError(
        f"{path} was saved with another network (its weights have the checksum {saved}, not "
        f"{own}): load the weights of that time first"
    )


def changed_state(model: Adapter) -> dict[str, Any]:
    """The state of a method without the weights that it shares with its network."""
    shared = _shared_names(model)
    return {name: value for name, value in model.state_dict().items() if name not in shared}


def restore_state(model: Adapter, changed: Mapping[str, Any]) -> None:
    """Put a method into a state that :func:`changed_state` gave, of whichever device.

    Raises:
        ValueError: It is the state of something else.
    """
    shared = _shared_names(model)
    own = {name: value for name, value in model.state_dict().items() if name in shared}
    try:
        state = {**own, **changed}
        state["_extra_state"] = _as_built(state["_extra_state"], model)
        model.load_state_dict(state)
    except (RuntimeError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"this is not the state of {type(model).__name__} ({error}): build the method as it "
            "was built when the state was saved"
        ) from error


def _in_the_dtype_of(path: Path, state: Mapping[str, Any], model: Adapter) -> Adapter:
    """The method, converted as the one was that was saved: by ``model.double()``, say.

    Raises:
        ValueError: It was not converted as a whole.
    """
    for dtype in _dtypes_that_differ(state, model)[:1]:
        model.to(dtype)
    if differing := _dtypes_that_differ(state, model):
        raise ValueError(
            f"{path} holds parameters in several precisions, {differing[0]} among them: convert "
            "the method as a whole before it is saved, by model.double() or model.float()"
        )
    return model


def _dtypes_that_differ(state: Mapping[str, Any], model: Adapter) -> list[torch.dtype]:
    stored = ((state.get(name), own) for name, own in model.named_parameters())
    return [
        given.dtype
        for given, own in stored
        if isinstance(given, Tensor) and given.is_floating_point() and given.dtype != own.dtype
    ]


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _shared_names(model: Adapter) -> set[str]:
    """What lies in the memory of the network, which no method changes."""
    addresses = {p.data_ptr() for p in model.source_net.parameters() if p.numel()}
    return {
        name
        for name, value in model.state_dict().items()
        if isinstance(value, Tensor) and value.data_ptr() in addresses
    }


def _name_of(model: Adapter) -> str:
    for name, kind in METHODS.items():
        if type(model) is kind:
            return name
    raise ValueError(
        f"{type(model).__name__} is not in rotta.METHODS, by which it would be built again: add "
        "it there, or save its state_dict() yourself"
    )


def _options_of(model: Adapter) -> dict[str, Any]:
    """Those that are part of its state: with others it could not go on."""
    return {name: value for name, value in model.built.items() if name not in _NO_OPTIONS}


def _free_options_of(model: Adapter) -> dict[str, Any]:
    """Those that may differ, as far as the method still knows them."""
    free = {
        name: getattr(model, name)
        for name in defaults_of(type(model))
        if name not in model.built and hasattr(model, name)
    }
    generator: torch.Generator | None = getattr(model, "generator", None)
    return free if generator is None else {**free, "seed": _seed_of_reset(model, generator)}


def _seed_of_reset(model: Adapter, generator: torch.Generator) -> int:
    """That to which ``reset()`` returns; what is drawn just now may go back to another one."""
    noted = model.start[EXTRA].get("generator")  # not there if a method has it as no state
    if noted is None:
        return generator.initial_seed()
    at_start = torch.Generator(generator.device)
    at_start.set_state(noted.cpu())
    return at_start.initial_seed()


def _continued(model: Adapter, other: Adapter) -> Adapter:
    """The other one, in the state of the first: one of them has a guard, and what only that one
    has is dropped or as it was built."""
    given, own = model.state_dict(), other.state_dict()
    state = {name: given.get(name, value) for name, value in own.items()}
    given_extra, own_extra = given["_extra_state"], own["_extra_state"]
    extra = {name: given_extra.get(name, value) for name, value in own_extra.items()}
    other.load_state_dict({**state, "_extra_state": {**extra, "built": other.built}})
    Learnt(other).set_rate(1.0)  # it may have been lowered, and nobody would raise it
    return other


def _as_built(extra: Mapping[str, Any], model: Adapter) -> dict[str, Any]:
    """Whether the number of classes came by its place or by its name makes no difference, nor
    whether an option was left out or did not exist yet."""
    saved, own = (
        {name: value for name, value in built.items() if name != "num_classes"}
        for built in (extra["built"], model.built)
    )
    defaults = defaults_of(type(model))
    alike = {**defaults, **saved} == {**defaults, **own}
    return {**extra, "built": model.built} if alike else dict(extra)
