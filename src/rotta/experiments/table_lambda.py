"""The appendix's table over λ_t and λ_u: age and uncertainty in the score of a sample."""

from rotta.experiments.sensitivity import sensitivity_experiment

EXPERIMENT = sensitivity_experiment(
    "table-lambda",
    "λ_t/λ_u",
    {
        "0.0/2.0": "rotta:lambda_t=0.0:lambda_u=2.0",
        "0.5/1.5": "rotta:lambda_t=0.5:lambda_u=1.5",
        "1.0/1.0": "rotta",
        "1.5/0.5": "rotta:lambda_t=1.5:lambda_u=0.5",
        "2.0/0.0": "rotta:lambda_t=2.0:lambda_u=0.0",
    },
)
