"""The paper's table on DomainNet: six sources, five targets each, ResNet-101."""

from rotta.experiments.domain_table import domain_experiment
from rotta.experiments.experiment import Training
from rotta.experiments.printed import printed

DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")


def _training(domain: str) -> Training:
    return Training(
        name=f"domainnet-{domain}",
        dataset="domainnet",
        domain=domain,
        arch="resnet-101",
        init=None,
        epochs=30,
        lr=0.05,
        batch_size=64,
        label_smoothing=0.1,
        image_size=224,
    )


EXPERIMENT = domain_experiment(
    "table-domainnet",
    "DomainNet, ResNet-101",
    DOMAINS,
    _training,
    split="test",
    paper=printed("domainnet"),
)
