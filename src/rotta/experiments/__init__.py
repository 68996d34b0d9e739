"""The experiments of the paper, and what others have measured of it, one small file each."""

from rotta.experiments import (
    figure_batch_size,
    figure_delta,
    figure_framework,
    figure_stream,
    figure_visits,
    table_ablation,
    table_alpha,
    table_cifar10,
    table_cifar100,
    table_class_mix,
    table_domainnet,
    table_lambda,
    table_nu,
    table_orders,
    table_pacs,
    table_settings,
)
from rotta.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table_cifar10,
        table_cifar100,
        table_domainnet,
        table_pacs,
        table_ablation,
        table_orders,
        figure_delta,
        figure_batch_size,
        table_lambda,
        table_alpha,
        table_nu,
        table_settings,
        figure_stream,
        figure_framework,
        figure_visits,
        table_class_mix,
    )
}
"""By name, in the order of the paper; what is not in it comes last."""

__all__ = ["EXPERIMENTS", "Experiment"]
