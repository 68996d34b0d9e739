"""The paper's figure over the batch size, on CIFAR100-C.

RoTTA updates after every 64 samples, however many come at a time, so that as many samples take
part in its updates at each size.
"""

from rotta.experiments.cifar import COMPARED, on_cifar
from rotta.experiments.course import Claims, course_experiment

EXPERIMENT = course_experiment(
    "figure-batch-size",
    "Error over the batch size, CIFAR100-C",
    "batch size",
    {
        str(size): on_cifar("cifar100-c", COMPARED, name=f"batch {size}", batch_size=size)
        for size in (16, 32, 64, 128, 256, 512)
    },
    Claims(
        better=("bn", "pl", "tent", "cotta", "note"),
        worse=("lame",),
        best_everywhere=True,
        about="RoTTA updates after every 64 samples, however many come at a time.",
    ),
)
