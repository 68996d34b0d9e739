"""PACS and DomainNet by name: found in ``data/``, and what to fetch if they are not there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rotta import folders
from rotta.datasets.domains import DomainFolder, load_domains


@dataclass(frozen=True)
class NamedDomains:
    """A published set of domains: what it is made of, and how to get it."""

    title: str
    domains: tuple[str, ...]
    with_lists: bool
    """Whether ``<domain>_train.txt`` and ``<domain>_test.txt`` belong to it."""
    how_to_get: str
    """Goes before the place where it belongs: ``"get … and put it"``."""

    def parts(self) -> Iterator[str]:
        """What must lie in its folder, one name after the other."""
        for domain in self.domains:
            yield domain
            if self.with_lists:
                yield f"{domain}_train.txt"
                yield f"{domain}_test.txt"


NAMED_DOMAINS = {
    "pacs": NamedDomains(
        title="PACS",
        domains=("art_painting", "cartoon", "photo", "sketch"),
        with_lists=False,
        how_to_get="download PACS (Li et al., Deeper, Broader and Artier Domain Generalization, "
        "2017: 4 domains of 7 classes, 9,991 images) and put it, as <domain>/<class>/<image>,",
    ),
    "domainnet": NamedDomains(
        title="DomainNet",
        domains=("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
        with_lists=True,
        how_to_get="download the cleaned version from http://ai.bu.edu/M3SDA/ (six archives, one "
        "per domain, and the lists <domain>_train.txt and <domain>_test.txt) and unpack it",
    ),
}
"""By the name to ask for, which is also that of the folder in ``data/``."""


def load_named_domains(
    name: str, *, split: str = "test", limit: int | None = None, image_size: int | None = None
) -> DomainFolder:
    """PACS or DomainNet from ``data/`` of ``$ROTTA_HOME`` or ``$ROTTA_CACHE``.

    Neither the dataset's name nor its provenance says on which machine it lies.

    Args:
        name: A key of `NAMED_DOMAINS`.
        split: As of :func:`~rotta.datasets.domains.load_domains`, and so are the others.
        limit: Only the first so many images of each domain.
        image_size: The side of the square images.

    Raises:
        FileNotFoundError: It is not there or not complete; the message says what to download and
            where to put it.
        ValueError: What is there is damaged.
    """
    relative = f"data/{name}"
    root = _complete(name, relative)
    found = load_domains(root, split=split, limit=limit, image_size=image_size)
    return replace(found, name=name, provenance={**found.provenance, "folder": relative})


def _complete(name: str, relative: str) -> Path:
    """The first folder that lacks nothing, home before cache."""
    published = NAMED_DOMAINS[name]
    looked = []
    for root in folders.places(relative):
        lacking = [part for part in published.parts() if not (root / part).exists()]
        if not lacking:
            return root
        looked.append(f"{root} lacks {', '.join(lacking)}" if root.is_dir() else f"no {root}")
    raise FileNotFoundError(
        f"{published.title} was not found ({'; '.join(looked)}): {published.how_to_get} in "
        f"{folders.cache() / relative}"
    )
