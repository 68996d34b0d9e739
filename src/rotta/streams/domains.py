"""Which domains a stream visits in which order, and the four settings of the paper's table."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from rotta.registry import lookup

_INITIALS = {
    "b": "brightness",
    "c": "contrast",
    "d": "defocus_blur",
    "e": "elastic_transform",
    "f": "fog",
    "fr": "frost",
    "g": "glass_blur",
    "ga": "gaussian_noise",
    "i": "impulse_noise",
    "j": "jpeg_compression",
    "m": "motion_blur",
    "p": "pixelate",
    "s": "snow",
    "sh": "shot_noise",
    "z": "zoom_blur",
}

ORDERS: tuple[tuple[str, ...], ...] = tuple(
    tuple(_INITIALS[initial] for initial in row.split())
    for row in (
        "b p ga m z g i j d e sh fr s f c",
        "j sh z fr c f d e ga b g i p s m",
        "c d ga sh s fr g z e j p b i m f",
        "sh f g p s e b i d fr c ga m j z",
        "p g z s f i b m fr j ga sh c d e",
        "m s f sh d c z b fr e g ga p j i",
        "fr i j c z g p s d m b e sh f ga",
        "d m z sh ga g j f c p fr s b e i",
        "g z i f s j ga fr sh b c m p d e",
        "c ga d z fr g j f p e sh i s m b",
    )
)
"""The ten orders of the 15 corruptions over which the paper averages (its orders table)."""

PAPER_ORDER = ORDERS[5]
"""The order of the paper's main tables: motion blur first, impulse noise last."""


@dataclass(frozen=True)
class Setting:
    """One row of the paper's table of settings.

    Attributes:
        name: What to type.
        title: What to print.
        changing: Whether the domains follow one another in a single stream, batches running
            across their borders. If not, each domain is an episode of its own that the model
            begins afresh.
        correlated: Whether samples of one class come together (Dirichlet), or independently.
    """

    name: str
    title: str
    changing: bool
    correlated: bool


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("fully", "Fully TTA", changing=False, correlated=False),
        Setting("continual", "Continual TTA", changing=True, correlated=False),
        Setting("non-iid", "Non-i.i.d. TTA", changing=False, correlated=True),
        Setting("ptta", "Practical TTA", changing=True, correlated=True),
    )
}
"""The settings by name; ``ptta`` is the paper's own."""


def resolve_order(order: int | Sequence[str] | None, available: Sequence[str]) -> tuple[str, ...]:
    """Turn what a user wrote into the names of the domains in the order of their visit.

    Args:
        order: ``None`` for all in the dataset's order, 0 … 9 for a row of :data:`ORDERS`, one
            name, or names, which may be fewer than available.
        available: The dataset's domains.

    Raises:
        ValueError: An unknown domain or row, a domain named twice, or a row of
            :data:`ORDERS` for a dataset without the 15 corruptions.

    Example:
        >>> resolve_order(("snow", "fog"), available=("fog", "frost", "snow"))
        ('snow', 'fog')
    """
    if order is None:
        return tuple(available)
    if not isinstance(order, Sequence):
        return _row(operator.index(order), available)
    names = (order,) if isinstance(order, str) else tuple(order)
    table = {name: name for name in available}
    for name in names:
        lookup(table, name, "domain")
    if not names:
        raise ValueError(f"order names no domain. Available: {', '.join(available)}")
    if len(set(names)) < len(names):
        raise ValueError(
            f"order names a domain twice: {', '.join(names)}. "
            "To come back to domains, repeat the whole order with visits=2"
        )
    return names


def _row(row: int, available: Sequence[str]) -> tuple[str, ...]:
    if not 0 <= row < len(ORDERS):
        raise ValueError(
            f"order {row} does not exist: choose 0 … {len(ORDERS) - 1} (5 is the main tables'), "
            "or name the domains"
        )
    missing = [name for name in ORDERS[row] if name not in available]
    if missing:
        raise ValueError(
            f"order {row} is an order of the 15 corruptions, and this dataset has no "
            f"{', '.join(missing)}: name its domains instead. Available: {', '.join(available)}"
        )
    return ORDERS[row]
