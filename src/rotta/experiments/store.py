"""The results of an experiment on the disk: right at every moment, and continued from."""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rotta.atomic import replacing
from rotta.experiments.experiment import Experiment, Variant
from rotta.experiments.tasks import Identity, Walk, Walked, identity_of
from rotta.results import MethodResult, Result, SeedResult, as_json, read_result

FILE = "result.json"
QUICK_LIMIT = 2000
QUICK_FOLDER = "quick"
_WALKS = "walks"  # in the provenance: which walk came from where


def load(folder: Path) -> dict[str, Result]:
    """Results by the names of variants; nothing if the experiment has not been run.

    Raises:
        ValueError: What is there are no results.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        blocks = stored["blocks"] if "blocks" in stored else {stored["config"]["variant"]: stored}
        results = {name: read_result(block) for name, block in blocks.items()}
        for result in results.values():
            list(_walks(result))  # whatever is not as it should be raises here
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} holds no results of an experiment ({type(error).__name__}: {error}): move it "
            "out of the way, or give another --out"
        ) from error
    return results


def _walks(block: Result) -> Iterator[tuple[Identity, Walked]]:
    """All walks of a block."""
    config = {name: value for name, value in block.config.items() if name not in _SUMMARY}
    for label, method in block.methods.items():
        options = dict(block.config["options"][label])
        for seed, result in method.seeds.items():
            identity = identity_of(config, label, int(seed))
            origin = dict(block.provenance[_WALKS][_walk_name(label, int(seed))])
            yield identity, Walked(result, config, options, origin)


class Store:
    """The file of one experiment, written anew with every walk.

    An experiment of one variant is written as ``rotta run`` writes; one of several has a block
    like that for each.

    Args:
        experiment: Whose results.
        folder: Where they are.

    Raises:
        ValueError: The file there is not of this experiment.
    """

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        self.experiment = experiment
        self.folder = folder
        self.blocks = load(folder)
        known = {variant.name for variant in experiment.variants}
        for name in self.blocks:
            if name not in known:
                raise ValueError(
                    f"{folder / FILE} is not of {experiment.name}, which has no {name!r}: move it "
                    "out of the way, or give another --out"
                )

    def walks(self) -> Iterator[tuple[Identity, Walked]]:
        """All that are finished."""
        for block in self.blocks.values():
            yield from _walks(block)

    def check_origin(self, variant: Variant, data: Mapping[str, str], weights: str | None) -> None:
        """Refuse to add walks over other images or from other weights than those there are.

        Args:
            variant: To which they belong.
            data: What the dataset states of its files.
            weights: Checksum of the source model, if it is known.

        Raises:
            ValueError: They are not the same.
        """
        block = self.blocks.get(variant.name)
        now = {"data": dict(data), "source weights": weights}
        for walk, origin in block.provenance[_WALKS].items() if block else ():
            for what, value in now.items():
                if value and origin.get(what) and origin[what] != value:
                    raise ValueError(
                        f"{self.folder / FILE} has walks of other {what} ({walk} in "
                        f"{variant.name!r}: {origin[what]}, now {value}): move it out of the way, "
                        "or give another --out"
                    )

    def has(self, walk: Walk) -> bool:
        """Whether a walk is finished.

        Raises:
            ValueError: Its variant was run, but otherwise.
        """
        block = self.blocks.get(walk.variant.name)
        if block is None:
            return False
        stated, wanted = identity_of(block.config, walk.method, walk.seed), walk.identity
        if stated != (wanted if wanted.order else wanted._replace(order=stated.order)):
            raise ValueError(
                f"{self.folder / FILE} was made with other settings for {walk.variant.name!r}: "
                "move it out of the way, or give another --out"
            )
        method = block.methods.get(walk.method)
        return method is not None and str(walk.seed) in method.seeds

    def seeds(self, variant: Variant, method: str) -> set[int]:
        """Of a method's finished walks."""
        block = self.blocks.get(variant.name)
        found = block.methods.get(method) if block else None
        return {int(seed) for seed in found.seeds} if found else set()

    def add(self, variant: Variant, method: str, seed: int, walked: Walked) -> None:
        """Take in a walk, and write the file."""
        before = self.blocks.get(variant.name)
        self.blocks[variant.name] = _joined(before, variant, method, seed, walked)
        known = [variant.name for variant in self.experiment.variants]
        self.blocks = dict(sorted(self.blocks.items(), key=lambda item: _place(item[0], known)))
        self._save()

    def _save(self) -> None:
        blocks = {name: asdict(block) for name, block in self.blocks.items()}
        whole: Mapping[str, Any] = {"experiment": self.experiment.name, "blocks": blocks}
        if len(self.experiment.variants) == 1:
            (whole,) = blocks.values()
        path = self.folder / FILE
        try:
            with replacing(path) as temporary:
                temporary.write_text(as_json(whole), encoding="utf-8")
        except OSError as error:
            raise OSError(
                f"{path} could not be written ({error}): what was in it is kept; make room, then "
                "give the same command again"
            ) from error


_SUMMARY = {"variant", "methods", "seeds", "options"}


def _joined(
    before: Result | None, variant: Variant, label: str, seed: int, walked: Walked
) -> Result:
    """A block with one more walk in it; in which order walks come makes no difference."""
    seeds: dict[str, dict[int, SeedResult]] = {}
    options: dict[str, Any] = {}
    origins: dict[str, Any] = {}
    if before is not None:
        seeds = {
            name: {int(seed): result for seed, result in method.seeds.items()}
            for name, method in before.methods.items()
        }
        options, origins = dict(before.config["options"]), dict(before.provenance[_WALKS])
    seeds.setdefault(label, {})[seed] = walked.result
    options[label] = walked.options
    origins[_walk_name(label, seed)] = walked.provenance
    labels = sorted(seeds, key=lambda name: _place(name, variant.methods))
    every_seed = sorted({seed for done in seeds.values() for seed in done})
    config = {
        **walked.config,
        "variant": variant.name,
        "methods": labels,
        "seeds": every_seed,
        "options": {name: options[name] for name in labels},
    }
    methods = {name: MethodResult.over(dict(sorted(seeds[name].items()))) for name in labels}
    ordered = {
        _walk_name(name, seed): origins[_walk_name(name, seed)]
        for name in labels
        for seed in sorted(seeds[name])
    }
    return Result(methods, config, {**_latest(ordered), _WALKS: ordered})


def _latest(origins: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return max(origins.values(), key=lambda origin: str(origin.get("time", "")))


def _place(name: str, order: list[str] | tuple[str, ...]) -> tuple[int, str]:
    """Known names in their order, others behind them."""
    return (order.index(name) if name in order else len(order), name)


def _walk_name(method: str, seed: int) -> str:
    return f"{method}, seed {seed}"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Within, no other process writes results there.

    Raises:
        ValueError: Another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"another `rotta reproduce` writes to {folder}: wait for it, or give another --out"
            ) from error
        yield
