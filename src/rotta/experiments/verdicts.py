"""Whether measurements agree with the paper, said in sentences."""

from collections.abc import Mapping, Sequence

from rotta.report.beside import Entry

NEAR = 1.5
"""Points of error within which an average counts as the paper's."""
NOISE = 0.3
"""Points by which two seeds of one method may differ: twice the largest deviation of RoTTA's."""
_AS_GOOD = 1.0  # points that a default may lie above the best


def agreement(averages: Mapping[str, Entry]) -> str:
    """Which averages are the paper's and which are not.

    Args:
        averages: By what they are called.

    Example:
        >>> agreement({"RoTTA": Entry(26.6, printed=25.2), "BN": Entry(78.7, printed=75.2)})
        'Within 1.5 points of the paper: RoTTA (+1.4). Not: BN (+3.5).'
    """
    near: list[str] = []
    far: list[str] = []
    for name, entry in averages.items():
        difference = entry.difference(1)
        if difference is not None:
            (near if abs(difference) <= NEAR else far).append(f"{name} ({_signed(difference)})")
    sentences = []
    if near:
        sentences.append(f"Within {NEAR} points of the paper: {', '.join(near)}.")
    if far:
        sentences.append(f"{'Not' if near else 'Not near the paper'}: {', '.join(far)}.")
    return " ".join(sentences)


def best_is_default(errors: Mapping[str, Entry], default: str) -> str:
    """Whether no value of a constant does better than the default.

    Example:
        >>> best_is_default({"0.1": Entry(34.5), "0.05": Entry(34.4)}, "0.05")
        'The default, 0.05, is the best of those measured, as in the paper.'
    """
    measured = {name: entry.value for name, entry in errors.items() if entry.value is not None}
    if default not in measured or len(measured) == 1:
        return ""
    best = min(measured, key=lambda name: measured[name])
    above = measured[default] - measured[best]
    if best == default:
        return f"The default, {default}, is the best of those measured, as in the paper."
    sentence = f"**Unlike in the paper**, the default, {default}, is not the best: {best} is"
    if above <= NOISE:
        return f"{sentence}, by {above:.2f}, which is no more than seeds may differ."
    words = "within a point of" if above <= _AS_GOOD else "more than a point above"
    return f"{sentence}, by {above:.1f}. The default is {words} it."


def all_worse(parts: Mapping[str, Mapping[str, Entry]], whole: Mapping[str, Entry]) -> str:
    """Whether the method is worse without each of its parts, on every dataset.

    Args:
        parts: Errors without a part, by what is left out and by dataset.
        whole: Errors of the whole method, by dataset.

    Example:
        >>> all_worse({"RBN": {"CIFAR10-C": Entry(78.2)}}, {"CIFAR10-C": Entry(26.6)})
        'Every part that is left out costs something, as in the paper.'
    """
    exceptions = []
    complete = True
    for part, errors in parts.items():
        for dataset, entry in errors.items():
            reference = whole[dataset].value
            if entry.value is None or reference is None:
                complete = False
            elif entry.value <= reference:
                exceptions.append(
                    f"{part} on {dataset}: {entry.value:.1f}, the whole method {reference:.1f}"
                )
    if exceptions:
        return f"**Unlike in the paper**, not every part earns its place: {'; '.join(exceptions)}."
    return "Every part that is left out costs something, as in the paper." if complete else ""


def where_best(errors: Mapping[str, Mapping[str, Entry]], method: str, *, claimed: bool) -> str:
    """Where a method is the best of those measured beside it.

    Args:
        errors: Of each method, by what is varied.
        method: One of them.
        claimed: Whether the paper says that it is the best everywhere.

    Example:
        >>> errors = {"RoTTA": {"16": Entry(35.9), "64": Entry(35.9)},
        ...           "BN": {"16": Entry(46.6), "64": Entry(35.6)}}
        >>> where_best(errors, "RoTTA", claimed=False)
        'RoTTA is the best at 16; not at 64 (BN 35.6, RoTTA 35.9).'
    """
    best, beaten = [], []
    for at, own in errors[method].items():
        others = {
            name: row[at].value for name, row in errors.items() if name != method and at in row
        }
        there = {name: value for name, value in others.items() if value is not None}
        if own.value is None or not there:
            continue
        ahead = min(there, key=lambda name: there[name])
        if own.value <= there[ahead]:
            best.append(at)
        else:
            beaten.append(f"{at} ({ahead} {there[ahead]:.1f}, {method} {own.value:.1f})")
    if not beaten:
        where = f"{method} is the best at {', '.join(best)}"
        return f"{where}{', as in the paper' if claimed else ''}." if best else ""
    unlike = "**Unlike in the paper**, " if claimed else ""
    where = f"is the best at {', '.join(best)}; not at" if best else "is not the best at"
    return f"{unlike}{method} {where} {', '.join(beaten)}."


def trends(
    errors: Mapping[str, Mapping[str, Entry]], better: Sequence[str], worse: Sequence[str]
) -> str:
    """Whether errors fall and rise, from the first value to the last, as the paper says.

    Args:
        errors: Of each method, by what is varied.
        better: Methods whose error falls in the paper.
        worse: Those whose error rises.

    Example:
        >>> errors = {"BN": {"16": Entry(46.6), "512": Entry(33.7)}}
        >>> trends(errors, better=["BN"], worse=[])
        'From 16 to 512, as in the paper: BN gets better (46.6 → 33.7).'
    """
    alike, otherwise = [], []
    span = ""
    for names, word, sign in ((better, "better", -1), (worse, "worse", 1)):
        for name in names:
            (first, before), *_, (last, after) = errors[name].items()
            if before.value is None or after.value is None:
                continue
            span = f"From {first} to {last}"
            values = f"({before.value:.1f} → {after.value:.1f})"
            if sign * (after.value - before.value) > NOISE:
                alike.append(f"{name} gets {word} {values}")
            else:
                otherwise.append(f"{name} does not get {word} {values}")
    sentences = [f"{span}, as in the paper: {', '.join(alike)}."] if alike else []
    if otherwise:
        sentences.append(f"**Unlike in the paper**, {', '.join(otherwise)}.")
    return " ".join(sentences)


def at_most(claim: str, error: Entry, bound: float | None) -> str:
    """Whether an error keeps a bound; nothing where one of them is missing.

    Example:
        >>> at_most("RoTTA reaches the goal", Entry(23.456), 24.0)
        'RoTTA reaches the goal (at most 24.00): yes, 23.46.'
    """
    if error.value is None or bound is None:
        return ""
    answer = "yes" if error.value <= bound else "**no**"
    return f"{claim} (at most {bound:.2f}): {answer}, {error.value:.2f}."


def said(sentences: Sequence[str]) -> tuple[str, ...]:
    """Those that say something."""
    return tuple(sentence for sentence in sentences if sentence)


def _signed(difference: float) -> str:
    return f"{difference:+.1f}".replace("-", "−") if difference else "0.0"
