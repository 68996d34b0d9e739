"""The protocol of the DomainNet table on PACS: four sources, three targets each."""

from rotta.experiments.domain_table import domain_experiment
from rotta.experiments.experiment import Training

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def _training(domain: str) -> Training:
    return Training(
        name=f"pacs-{domain}",
        dataset="pacs",
        domain=domain,
        arch="efficientnet-lite0",
        init="imagenet",
        epochs=15,
        lr=0.02,
        batch_size=64,
        label_smoothing=0.1,
        image_size=128,  # the files have 96: enlarged, the first layers see what they know
    )


EXPERIMENT = domain_experiment(
    "table-pacs",
    "PACS, EfficientNet-Lite0",
    DOMAINS,
    _training,
    split="all",  # no source has seen any image of its targets
)
