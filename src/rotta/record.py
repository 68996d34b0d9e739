"""The file of a comparison's result, which is right at every moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rotta.comparison import Failed, Finished
from rotta.results import MethodResult, Result, SeedResult
from rotta.streams.arrivals import without_unused

_STATE = ("complete", "failed")  # in the configuration, though they change


class Record:
    """The result of a comparison, written anew whenever a walk is over.

    However the comparison ends, the file holds what was finished; ``complete`` in its
    configuration says if that is all, ``failed`` what was raised.

    Args:
        path: Of ``result.json``.
        labels: The methods, in the order of the result.
        seeds: Of the streams.
        config: What else the result was configured with.
        provenance: What it depends on besides.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "result.json"
        >>> record = Record(path, ["rotta"], [0], {"dataset": "digits"}, {})
        >>> record.add(Failed("rotta", 0, "RuntimeError: out of memory", ""))
        >>> Result.load(path).config["complete"]
        False
    """

    def __init__(
        self,
        path: Path,
        labels: Sequence[str],
        seeds: Sequence[int],
        config: Mapping[str, Any],
        provenance: Mapping[str, Any],
    ) -> None:
        self.path = path
        self.failed: list[Failed] = []
        self._config = {**config, "methods": list(labels), "seeds": list(seeds)}
        self._provenance = provenance
        self._finished: dict[str, dict[int, SeedResult]] = {label: {} for label in labels}

    def add(self, end: Finished | Failed) -> None:
        """Take in what became of a walk, and write the file."""
        if isinstance(end, Failed):
            self.failed.append(end)
        else:
            self._finished[end.label][end.seed] = end.result
        self.result().save(self.path)

    def take_up(self, earlier: Result) -> None:
        """Take over the finished walks of a comparison that was broken off, but not its failures.

        Raises:
            ValueError: It was configured otherwise.
        """
        same = {name: value for name, value in earlier.config.items() if name not in _STATE}
        if without_unused(same) != without_unused(json.loads(json.dumps(self._config))):
            raise ValueError(f"{self.path} is the result of another run: start a new one")
        for label, method in earlier.methods.items():
            self._finished[label] = {int(seed): one for seed, one in method.seeds.items()}

    @property
    def finished(self) -> list[tuple[str, int]]:
        """The walks that are, by label and seed."""
        return [(label, seed) for label, seeds in self._finished.items() for seed in seeds]

    @property
    def walks(self) -> int:
        """How many are finished."""
        return len(self.finished)

    @property
    def complete(self) -> bool:
        """Whether all are."""
        return self.walks == len(self._config["methods"]) * len(self._config["seeds"])

    def result(self) -> Result:
        """What there is so far; in which order walks were over makes no difference."""
        labels, seeds = self._config["methods"], self._config["seeds"]
        failed = sorted(
            self.failed, key=lambda failed: (seeds.index(failed.seed), labels.index(failed.label))
        )
        state = {
            "complete": self.complete,
            "failed": [asdict(failure) for failure in failed],
        }
        methods = {
            label: MethodResult.over({seed: done[seed] for seed in seeds if seed in done})
            for label, done in self._finished.items()
            if done
        }
        return Result(methods, {**self._config, **state}, self._provenance)
