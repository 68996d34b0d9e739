"""Help that shows nothing beside flags, where typer would write ``<bool>``."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command, to be given to typer as ``cls``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options and arguments, --help included."""
        return _flags_take_nothing(super().get_params(ctx))


class Group(TyperGroup):
    """The command that the others belong to, to be given to typer as ``cls``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options and arguments, --help included."""
        return _flags_take_nothing(super().get_params(ctx))


def _flags_take_nothing(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params
