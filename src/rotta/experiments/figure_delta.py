"""The paper's figure over δ: how correlated the samples of CIFAR100-C come."""

from rotta.experiments.cifar import COMPARED, on_cifar
from rotta.experiments.course import Claims, course_experiment
from rotta.experiments.experiment import Variant

_DELTAS = (10, 1, 0.1, 0.01, 0.001)


def _variant(delta: float | None) -> Variant:
    if delta is None:
        return on_cifar("cifar100-c", COMPARED, name="i.i.d.", setting="continual")
    return on_cifar("cifar100-c", COMPARED, name=f"δ = {delta}", delta=delta)


EXPERIMENT = course_experiment(
    "figure-delta",
    "Error over δ, CIFAR100-C",
    "δ",
    {
        "i.i.d.": _variant(None),
        **{str(delta): _variant(delta) for delta in _DELTAS},
    },
    Claims(better=("lame",), worse=("bn", "pl", "tent", "cotta")),
)
