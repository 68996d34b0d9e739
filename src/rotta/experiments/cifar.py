"""What the experiments on CIFAR-10-C and CIFAR-100-C have in common."""

from rotta.experiments.experiment import Variant

SOURCES = {"cifar10-c": "cifar10-wrn28-10", "cifar100-c": "cifar100-resnext29-augmix"}
TITLES = {"cifar10-c": "CIFAR10-C", "cifar100-c": "CIFAR100-C"}

COMPARED = ("source", "bn", "pl", "tent", "lame", "cotta", "note", "rotta")
"""The paper's comparison, in its order."""


def on_cifar(
    dataset: str,
    methods: tuple[str, ...],
    *,
    name: str | None = None,
    setting: str = "ptta",
    delta: float = 0.1,
    order: int | None = None,
    visits: int = 1,
    batch_size: int = 64,
) -> Variant:
    """A stream over one of the two, with the paper's source model.

    Example:
        >>> on_cifar("cifar10-c", ("rotta",)).source
        'cifar10-wrn28-10'
    """
    return Variant(
        name=name or dataset,
        dataset=dataset,
        source=SOURCES[dataset],
        methods=methods,
        setting=setting,
        delta=delta,
        order=order,
        visits=visits,
        batch_size=batch_size,
    )
