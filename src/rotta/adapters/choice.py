"""Methods as they are named on the command line: ``rotta,note:lr=0.001``."""

import ast
from dataclasses import dataclass
from typing import Any

from torch import nn

from rotta.adapters.base import Adapter
from rotta.adapters.common import COMMON_DEFAULTS, defaults_of, type_of
from rotta.adapters.methods import METHODS, adapt, lookup_options
from rotta.registry import lookup


@dataclass(frozen=True)
class MethodChoice:
    """A method with options."""

    name: str
    """In :data:`METHODS`."""
    options: dict[str, Any]

    @property
    def label(self) -> str:
        """As it would be typed: ``note:lr=0.001``."""
        return ":".join([self.name, *(f"{k}={_typed(value)}" for k, value in self.options.items())])

    @property
    def settings(self) -> dict[str, Any]:
        """All options in force, but for the seed, which is the stream's unless it was given."""
        in_force = {**defaults_of(METHODS[self.name]), **self.options}
        return {name: value for name, value in in_force.items() if name != "seed"}

    @property
    def keeps_nothing(self) -> bool:
        """Whether its answer to a batch depends on that batch alone."""
        said_by_itself: bool = vars(METHODS[self.name]).get("KEEPS_NOTHING", False)
        settings = self.settings
        as_they_are = all(settings[name] == value for name, value in COMMON_DEFAULTS.items())
        return said_by_itself and as_they_are

    def build(self, net: nn.Module, num_classes: int, seed: int = 0) -> Adapter:
        """The method around a network; ``seed`` goes to methods that draw random numbers."""
        seeded = "seed" in defaults_of(METHODS[self.name])
        options = {"seed": seed, **self.options} if seeded else self.options
        return adapt(net, self.name, num_classes=num_classes, **options)


def _typed(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_methods(text: str) -> list[MethodChoice]:
    """Read a list of methods.

    Args:
        text: ``all``, or names with commas between; a name may be followed by options, as in
            ``rotta:alpha=0.1:nu=0.01``.

    Raises:
        ValueError: Something in it is unknown, cannot be read, or is there twice.

    Example:
        >>> [choice.label for choice in parse_methods("source,note:lr=1e-3")]
        ['source', 'note:lr=0.001']
    """
    words = list(METHODS) if text.strip() == "all" else [word.strip() for word in text.split(",")]
    choices = [_parse(word) for word in words if word]
    if not choices:
        raise ValueError(f"no method is named: give `all`, or some of {', '.join(METHODS)}")
    labels = [choice.label for choice in choices]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} is named twice: name each method once")
    return choices


def _parse(word: str) -> MethodChoice:
    name, *settings = word.split(":")
    lookup(METHODS, name, "method")
    options: dict[str, Any] = {}
    for setting in settings:
        key, value = _setting(name, setting)
        if key in options:
            raise ValueError(f"{key} is given twice in {word!r}: give it once")
        options[key] = value
    return MethodChoice(name, options)


def _setting(method: str, setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals:
        raise ValueError(f"cannot read {setting!r}: write options as {method}:key=value")
    lookup_options(method, {key: None})
    try:
        value = ast.literal_eval(text.capitalize() if text in ("true", "false") else text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = text
    wanted = type_of(METHODS[method], key)
    if wanted is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not wanted:
        raise ValueError(f"{method}:{key} takes {_KINDS[wanted]}, not {text!r}")
    return key, value


_KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a word"}
