"""The appendix's table over α: how fast the statistics of RBN move."""

from rotta.experiments.sensitivity import sensitivity_experiment

EXPERIMENT = sensitivity_experiment(
    "table-alpha",
    "α",
    {
        "0.5": "rotta:alpha=0.5",
        "0.1": "rotta:alpha=0.1",
        "0.05": "rotta",
        "0.01": "rotta:alpha=0.01",
        "0.005": "rotta:alpha=0.005",
        "0.001": "rotta:alpha=0.001",
    },
)
