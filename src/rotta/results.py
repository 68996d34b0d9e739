"""What a run leaves behind: errors and their course, its configuration, what they came from."""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from rotta.atomic import replacing
from rotta.nn import native
from rotta.versions import versions


@dataclass(frozen=True)
class Windows:
    """The course of one walk along the stream, in windows of consecutive batches."""

    samples: Sequence[int]
    """Samples seen at the end of each window, rising."""
    error: Sequence[float]
    """In percent, of each window."""
    entropy: Sequence[float]
    """Mean of the predictions', in nats."""
    balance: Sequence[float]
    """Of the predicted classes: 0 when there is only one, 1 when all come equally often."""


@dataclass(frozen=True)
class BankCourse:
    """What a method's memory bank held, at the ends of the same windows."""

    samples: Sequence[int]
    counts: Sequence[Sequence[int]]
    """Samples held of each predicted class, (windows, classes)."""
    age: Sequence[float]
    """Their mean age, in samples presented."""


@dataclass(frozen=True)
class GuardEvent:
    """One thing that a method's guard did, and where in the stream."""

    batch: int
    """How many of the stream had come, this one included."""
    samples: int
    """So many were in them."""
    domain: str
    """In which most of the batch lies."""
    action: str
    """``"lower the rate"``, ``"roll back"``, ``"reset"``, ``"raise the rate"``, ``"leave out"`` or
    ``"learn again"``."""
    cause: str
    evidence: float
    rate: float
    """By which the learning rate is multiplied from then on."""
    signals: Mapping[str, float | None]
    """As the guard last saw them; ``None`` for what was not finite."""


@dataclass(frozen=True)
class SeedResult:
    """What one method scored on the stream of one seed."""

    average_error: float
    """Mean over the domains, in percent."""
    per_domain: Mapping[str, float]
    per_class: Mapping[str, float]
    ms_per_batch: float
    """Mean over the batches, predict and adapt; the wait for images is not in it."""
    windows: Windows
    bank: BankCourse | None = None
    per_visit: Sequence[float] = field(default_factory=list)
    """Mean over the domains each time that they came round, in percent; none in old files."""
    events: Sequence[GuardEvent] = field(default_factory=list)
    """What the guard did, the newest last; none without a guard."""
    skipped: Mapping[str, int] | None = None
    """Bad images (``"non-finite"``, ``"range"``) and batches (other reasons), if there were any."""


@dataclass(frozen=True)
class MethodResult:
    """What one method scored: means over the seeds, and each seed's own."""

    average_error: float
    per_domain: Mapping[str, float]
    per_class: Mapping[str, float]
    ms_per_batch: float
    std: float | None
    """Of the average error over the seeds (n − 1); none for a single seed."""
    seeds: Mapping[str, SeedResult]

    @classmethod
    def over(cls, seeds: Mapping[int, SeedResult]) -> "MethodResult":
        """The mean of at least one seed's results."""
        results = list(seeds.values())
        averages = [result.average_error for result in results]
        return cls(
            average_error=statistics.fmean(averages),
            per_domain=_means([result.per_domain for result in results]),
            per_class=_means([result.per_class for result in results]),
            ms_per_batch=statistics.fmean(result.ms_per_batch for result in results),
            std=statistics.stdev(averages) if len(averages) > 1 else None,
            seeds={str(seed): result for seed, result in seeds.items()},
        )


@dataclass(frozen=True)
class Result:
    """A run: methods over the streams of one dataset and setting."""

    methods: Mapping[str, MethodResult]
    """By the name that was asked for, options included: ``note:lr=0.001``."""
    config: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write as JSON, completely or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(as_json(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Result":
        """Read what :meth:`save` wrote.

        Raises:
            ValueError: The file is not a result.
        """
        try:
            return read_result(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not the result of a run ({type(error).__name__}: {error}): give a "
                "folder that `rotta run` wrote, or its result.json"
            ) from error


def read_result(stored: Any) -> Result:
    """A result from what JSON made of it.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    methods = {name: _method(value) for name, value in _mapping(stored["methods"]).items()}
    return Result(methods, _mapping(stored["config"]), _mapping(stored["provenance"]))


def as_json(value: Any) -> str:
    """How results are written: indented, but lists of numbers on one line."""
    return _numbers_in_a_row(json.dumps(value, indent=1)) + "\n"


def _numbers_in_a_row(text: str) -> str:
    """Indented JSON, with each list of numbers on one line.

    Example:
        >>> _numbers_in_a_row(json.dumps({"a": [1, 2.5]}, indent=1))
        '{\\n "a": [1, 2.5]\\n}'
    """
    # a string holds no line break, so nothing in one can be taken for a list
    return re.sub(r"\[\n[\s\d.,e+-]+\]", _one_line, text)


def _one_line(numbers: re.Match[str]) -> str:
    return "[" + ", ".join(number.strip() for number in numbers[0][1:-1].split(",")) + "]"


def _means(per_seed: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(values[name] for values in per_seed) for name in per_seed[0]}


def _method(stored: Any) -> MethodResult:
    seeds = {seed: _seed(value) for seed, value in _mapping(stored["seeds"]).items()}
    std = stored["std"]
    return MethodResult(**_scores(stored), std=None if std is None else _number(std), seeds=seeds)


def _seed(stored: Any) -> SeedResult:
    windows = Windows(**_columns(stored["windows"], "samples", "error", "entropy", "balance"))
    return SeedResult(
        **_scores(stored),
        windows=windows,
        bank=_bank(stored["bank"]),
        per_visit=_numbers(stored.get("per_visit", [])),
        events=[read_event(event) for event in stored.get("events", [])],
        skipped=_skipped(stored.get("skipped")),
    )


def read_event(stored: Any) -> GuardEvent:
    """An event from what JSON made of it, or a checkpoint.

    Raises:
        KeyError, TypeError: It is none.
    """
    signals = _mapping(stored["signals"]).items()
    values: dict[str, Any] = {
        **{name: _number(stored[name]) for name in ("batch", "samples", "evidence", "rate")},
        **{name: _word(stored[name]) for name in ("domain", "action", "cause")},
        "signals": {n: None if value is None else _number(value) for n, value in signals},
    }
    return GuardEvent(**values)


def _skipped(stored: Any) -> dict[str, int] | None:
    if stored is None:
        return None
    return {reason: _number(count) for reason, count in _mapping(stored).items()}


def _bank(stored: Any) -> BankCourse | None:
    if stored is None:
        return None
    counts = [_numbers(row) for row in stored["counts"]]
    columns = _columns(stored, "samples", "age")
    if len({len(row) for row in counts}) > 1 or len(counts) != len(columns["samples"]):
        raise ValueError("the bank's counts do not fit each other")
    return BankCourse(**columns, counts=counts)


def _scores(stored: Any) -> dict[str, Any]:
    """What the results of methods and of seeds have in common."""
    scores: dict[str, Any] = {
        name: _number(stored[name]) for name in ("average_error", "ms_per_batch")
    }
    for name in ("per_domain", "per_class"):
        scores[name] = {key: _number(rate) for key, rate in _mapping(stored[name]).items()}
    return scores


def _columns(stored: Any, *names: str) -> dict[str, Any]:
    """Lists of numbers of one length."""
    columns = {name: _numbers(stored[name]) for name in names}
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"{', '.join(names)} are not equally long")
    return columns


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is not an object")
    return value


def _numbers(values: Any) -> list[Any]:
    return [_number(value) for value in values]


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is not a number")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a word")
    return value


def provenance(
    device: torch.device | str, data: Mapping[str, str], threads: int | None = None
) -> dict[str, Any]:
    """What a result depends on besides its configuration.

    Args:
        device: Where it was computed.
        data: The dataset's own record of its files.
        threads: Of each walk on the CPU; those of this process if left out.
    """
    threads = threads or torch.get_num_threads()
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "device": device_name(torch.device(device), threads),
        "cpu kernels": kernels_on(device),
        "threads": threads,
        "tf32": {
            "convolutions": torch.backends.cudnn.allow_tf32,
            "matrix products": torch.backends.cuda.matmul.allow_tf32,
        },
        "commit": _commit(),
        "data": dict(data),
    }


def kernels_on(device: torch.device | str) -> str:
    """Which normalise on a CPU, where other ones give other last digits; elsewhere none."""
    return native.level() if torch.device(device).type == "cpu" else "none"


def device_name(device: torch.device, threads: int) -> str:
    """In words: ``NVIDIA H200``, or the processor's architecture and threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {threads} thread{'' if threads == 1 else 's'}"


def _commit() -> str:
    """The commit of the checkout that this file is in, with a + if something was changed."""
    stated = os.environ.get("ROTTA_COMMIT")  # for copies of a checkout that travel without .git
    if stated:
        return stated
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parents[1]:
            return "unknown"  # installed into some other project's tree
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
