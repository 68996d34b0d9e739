"""The appendix's table over ν: how fast the teacher follows the student."""

from rotta.experiments.sensitivity import sensitivity_experiment

EXPERIMENT = sensitivity_experiment(
    "table-nu",
    "ν",
    {
        "0.05": "rotta:nu=0.05",
        "0.01": "rotta:nu=0.01",
        "0.005": "rotta:nu=0.005",
        "0.001": "rotta",
        "0.0005": "rotta:nu=0.0005",
        "0.0001": "rotta:nu=0.0001",
    },
)
