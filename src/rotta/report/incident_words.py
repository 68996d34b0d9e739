"""What guards did and which input was skipped, in words."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rotta.guard import GOOD_NEWS
from rotta.results import GuardEvent, MethodResult, Result

DONE = {
    "lower the rate": "lowered the rate",
    "roll back": "rolled back",
    "reset": "reset",
    "raise the rate": "raised the rate",
    "leave out": "left images out",
    "learn again": "learnt again",
}
"""Actions of a guard, as they are told afterwards."""
_IMAGES = ("non-finite", "range")  # other reasons to skip concern whole batches


def incident_words(result: Result) -> dict[str, str]:
    """A phrase for each method that has a guard or skipped something, over all its seeds.

    Example:
        >>> from rotta.results import SeedResult, Windows
        >>> walk = SeedResult(9.0, {}, {}, 1.0, Windows([], [], [], []), skipped={"range": 3})
        >>> run = Result({"tent": MethodResult.over({0: walk})}, {"options": {"tent": {}}})
        >>> incident_words(run)
        {'tent': 'skipped 3 images'}
    """
    words = {}
    for label, method in result.methods.items():
        guard, skipped = [], skipped_words(skipped_by(method))
        if _has_guard(result, label):
            guard = [f"guard: {guard_words(events_of(method))}"]
        parts = [*guard, *([f"skipped {skipped}"] if skipped else [])]
        if parts:
            words[label] = "; ".join(parts)
    return words


def guard_words(events: Sequence[GuardEvent]) -> str:
    """How many alarms there were, and what was done.

    Example:
        >>> one = GuardEvent(16, 1024, "fog", "reset", "too far", 1.0, 0.1, {})
        >>> guard_words([one, one]), guard_words([])
        ('2 alarms, 2 reset', 'no alarm')
    """
    actions = Counter(event.action for event in events)
    alarms = sum(count for action, count in actions.items() if action not in GOOD_NEWS)
    done = [
        f"{actions.pop(action):,} {words}" for action, words in DONE.items() if action in actions
    ]
    others = [f"{count:,} {action}" for action, count in actions.items()]
    return ", ".join([_counted(alarms, "alarm"), *done, *others])


def skipped_words(skipped: Mapping[str, int]) -> str:
    """Images and batches apart; empty if there were none.

    Example:
        >>> skipped_words({"non-finite": 2, "range": 1, "shape": 1})
        '3 images, 1 batch'
    """
    images = sum(count for reason, count in skipped.items() if reason in _IMAGES)
    batches = sum(skipped.values()) - images
    parts = [_counted(images, "image"), _counted(batches, "batch", "es")]
    return ", ".join(part for part, count in zip(parts, (images, batches), strict=True) if count)


def events_of(method: MethodResult) -> list[GuardEvent]:
    """Those of all seeds, one after the other."""
    return [event for seed in method.seeds.values() for event in seed.events]


def skipped_by(method: MethodResult) -> Counter[str]:
    """Counts over all seeds, by reason."""
    skipped: Counter[str] = Counter()
    for seed in method.seeds.values():
        skipped.update(seed.skipped or {})
    return skipped


def _has_guard(result: Result, label: str) -> bool:
    options = (result.config.get("options") or {}).get(label) or {}
    return bool(options.get("guard")) or bool(events_of(result.methods[label]))


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{plural if number > 1 else ''}" if number else f"no {noun}"
