"""The paper's main table on CIFAR10-C: eight methods over fifteen corruptions."""

from rotta.experiments.comparison_table import comparison_experiment

EXPERIMENT = comparison_experiment("table-cifar10", "cifar10-c")
