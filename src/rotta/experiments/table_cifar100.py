"""The paper's main table on CIFAR100-C: eight methods over fifteen corruptions."""

from rotta.experiments.comparison_table import comparison_experiment

EXPERIMENT = comparison_experiment("table-cifar100", "cifar100-c")
