"""Where the results of an experiment come from, in a few lines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rotta.adapters.precision import FULL
from rotta.experiments.experiment import Blocks
from rotta.report.names import method_name

_COMMIT_LETTERS = 10
_PACKAGES = ("python", "torch")  # of the versions, what people ask for


def origin_lines(blocks: Blocks) -> list[str]:
    """Machine, precision, commits, seeds and images, as items of a Markdown list.

    Args:
        blocks: At least one.
    """
    origins = [origin for block in blocks.values() for origin in _origins(block.provenance)]
    facts = {
        "machine": _distinct(origin.get("device") for origin in origins),
        "precision": _precision(blocks, origins),
        "commit": _counted(_short(str(origin.get("commit", "unknown"))) for origin in origins),
        "versions": _distinct(_versions(origin) for origin in origins),
        "measured": _days(origins),
        "seeds": _seeds(blocks),
        "images per domain": _images(blocks),
    }
    return [f"- {name}: {fact}" for name, fact in facts.items() if fact]


def seeds_of(blocks: Blocks) -> list[int]:
    """All that any walk was made with, rising."""
    return sorted(set().union(*_seeds_by_method(blocks).values()))


def limit_of(blocks: Blocks) -> int | None:
    """Images per domain that the walks were limited to; none if there was no limit."""
    limits = {block.config.get("limit") for block in blocks.values()}
    return limits.pop() if len(limits) == 1 else None


def _origins(provenance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of each walk; of the whole where walks have none of their own."""
    return list(provenance.get("walks", {}).values()) or [provenance]


def _distinct(facts: Iterable[Any]) -> str:
    return "; ".join(dict.fromkeys(str(fact) for fact in facts if fact))


def _counted(facts: Iterable[str]) -> str:
    """Each with the number of walks, where there are several."""
    counts = Counter(facts)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(
        f"{fact} ({number} walk{'' if number == 1 else 's'})"
        for fact, number in counts.most_common()
    )


def _short(commit: str) -> str:
    """``+`` stays: it says that something was changed."""
    return commit[:_COMMIT_LETTERS] + ("+" if commit.endswith("+") else "")


def _versions(origin: Mapping[str, Any]) -> str:
    found = origin.get("versions", {})
    return ", ".join(f"{name} {found[name]}" for name in _PACKAGES if name in found)


def _days(origins: Iterable[Mapping[str, Any]]) -> str:
    days = sorted({str(origin["time"])[:10] for origin in origins if "time" in origin})
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else ""


def _precision(blocks: Blocks, origins: Sequence[Mapping[str, Any]]) -> str:
    """Float32 but for methods that were told otherwise, and what the GPU makes of it."""
    stated = [origin for origin in origins if "tf32" in origin]
    rounded = sorted({use for origin in stated for use in _in_tf32(origin)})
    text = "float32" + (f" ({' and '.join(rounded)} in TF32" if rounded else "")
    if rounded:
        silent = len(origins) - len(stated)
        text += f"; {silent} older walks do not state it)" if silent else ")"
    return "; ".join([text, *_other_precisions(blocks)])


def _other_precisions(blocks: Blocks) -> Iterator[str]:
    """Methods without a walk in float32 but in another precision, and in how many cells."""
    of_method: dict[str, Counter[str]] = {}
    for block in blocks.values():
        used: dict[str, set[str]] = {}  # by the label without it
        for label, options in block.config.get("options", {}).items():
            precision = options.get("precision", FULL)
            plain = label.replace(f":precision={precision}", "")
            used.setdefault(plain, set()).add(precision)
        for label, precisions in used.items():
            shown = FULL if FULL in precisions else min(precisions)
            of_method.setdefault(label.split(":")[0], Counter())[shown] += 1
    for method, streams in sorted(of_method.items()):
        for precision, number in sorted(streams.items()):
            if precision != FULL:
                some = f" in {number} of {streams.total()} cells"
                yield f"{method_name(method)} in {precision}" + some * (number < streams.total())


def _in_tf32(origin: Mapping[str, Any]) -> Iterator[str]:
    """What was allowed to round its factors; no CPU does."""
    if "CPU" not in str(origin.get("device")):
        yield from (use for use, allowed in origin.get("tf32", {}).items() if allowed)


def _seeds_by_method(blocks: Blocks) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for block in blocks.values():
        for label, method in block.methods.items():
            found.setdefault(label, set()).update(map(int, method.seeds))
    return found


def _seeds(blocks: Blocks) -> str:
    """All of them, and which methods have fewer."""
    every = seeds_of(blocks)
    fewer = [
        f"{method_name(label)}: {_listed(own)}"
        for label, own in _seeds_by_method(blocks).items()
        if own != set(every)
    ]
    return _listed(every) + (f" ({'; '.join(fewer)})" if fewer else "")


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))


def _images(blocks: Blocks) -> str:
    sizes = {size for block in blocks.values() for size in block.config.get("domain_sizes", ())}
    return " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)})) if sizes else ""
