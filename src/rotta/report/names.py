"""How methods, domains and settings are called where people read them."""

from collections import Counter
from collections.abc import Iterable, Sequence

_METHODS = {
    "source": "Source",
    "bn": "BN",
    "pl": "PL",
    "tent": "TENT",
    "lame": "LAME",
    "cotta": "CoTTA",
    "note": "NOTE",
    "rotta": "RoTTA",
    "rotta-lasting": "RoTTA-lasting",
}
_SETTINGS = {
    "fully": "Fully TTA",
    "continual": "Continual TTA",
    "non-iid": "Non-i.i.d. TTA",
    "ptta": "Practical TTA",
}
_KINDS = (" blur", " noise", " transform", " compression")  # what the corruptions' names end in


def method_name(label: str) -> str:
    """What a table calls a method, its options kept.

    Args:
        label: As it was asked for.

    Example:
        >>> method_name("rotta"), method_name("note:lr=0.001"), method_name("mine")
        ('RoTTA', 'NOTE (lr=0.001)', 'mine')
    """
    key, _, options = label.partition(":")
    name = _METHODS.get(key, key)
    return f"{name} ({options.replace(':', ', ')})" if options else name


def emphasised(labels: Iterable[str]) -> set[str]:
    """Which methods to bring forward: RoTTA as it is, or if that is missing, its variants.

    Example:
        >>> emphasised(["bn", "rotta", "rotta:nu=0.01"]), emphasised(["bn", "rotta:nu=0.01"])
        ({'rotta'}, {'rotta:nu=0.01'})
    """
    variants = {label for label in labels if label.partition(":")[0] == "rotta"}
    return variants & {"rotta"} or variants


def setting_name(setting: str) -> str:
    """``ptta`` to ``Practical TTA``."""
    return _SETTINGS.get(setting, setting)


def domain_name(domain: str) -> str:
    """``motion_blur`` to ``motion blur``."""
    return domain.replace("_", " ")


def short_domain_names(domains: Sequence[str]) -> tuple[str, ...]:
    """Names for narrow places, as the paper shortens them; two domains never get the same.

    Example:
        >>> short_domain_names(["motion_blur", "fog", "jpeg_compression"])
        ('motion', 'fog', 'jpeg')
        >>> short_domain_names(["gaussian_blur", "gaussian_noise"])
        ('gaussian blur', 'gaussian noise')
    """
    full = [domain_name(domain) for domain in domains]
    short = [_without_kind(name) for name in full]
    uses = Counter(short)
    return tuple(s if uses[s] == 1 else f for s, f in zip(short, full, strict=True))


def _without_kind(name: str) -> str:
    for kind in _KINDS:
        if name.endswith(kind) and name != kind:
            return name.removesuffix(kind)
    return name
