"""The same methods in several settings on both data sets, and their table."""

from collections.abc import Iterable

from rotta.experiments.cifar import TITLES, on_cifar
from rotta.experiments.experiment import Blocks, Variant
from rotta.experiments.measured import average
from rotta.report.beside import Grid
from rotta.report.names import method_name, setting_name


def variant_name(dataset: str, setting: str) -> str:
    """Of the stream over a data set in a setting."""
    return f"{dataset}, {setting}"


def variants(methods: tuple[str, ...], settings: Iterable[str]) -> tuple[Variant, ...]:
    """All data sets in all settings.

    Example:
        >>> [variant.name for variant in variants(("rotta",), ["ptta"])]
        ['cifar10-c, ptta', 'cifar100-c, ptta']
    """
    return tuple(
        on_cifar(dataset, methods, name=variant_name(dataset, setting), setting=setting)
        for setting in settings
        for dataset in TITLES
    )


def grids(blocks: Blocks, methods: tuple[str, ...], settings: Iterable[str]) -> tuple[Grid, ...]:
    """For each data set methods down and settings across."""
    across = tuple(settings)
    heads = tuple(setting_name(setting) for setting in across)
    return tuple(
        Grid(
            dataset,
            f"{title}: average error, %",
            "method",
            heads,
            tuple(
                (
                    method_name(label),
                    tuple(average(blocks, variant_name(dataset, each), label) for each in across),
                )
                for label in methods
            ),
        )
        for dataset, title in TITLES.items()
    )
