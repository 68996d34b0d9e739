"""What a run was asked for, in its folder: whoever finds it broken off can go on with it."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from rotta.cli.run_folder import REQUEST, write_first

_FORMAT = 1
_TOO_MANY = 2**31  # jobs or threads, for PyTorch to count


@dataclass(frozen=True)
class Request:
    """The options of ``rotta run``, with what was left open settled."""

    dataset: str
    source: str | None
    methods: str
    setting: str
    delta: float
    arrival: str
    length: int | None
    imbalance: float | None
    order: str | None
    severity: int
    visits: int
    batch_size: int
    seeds: list[int]
    limit: int | None
    split: str
    image_size: int | None
    frost: str | None
    device: str
    jobs: int
    threads: int
    """Of each walk on the CPU: sums of one and of several differ in their last digits."""


@dataclass(frozen=True)
class Begun:
    """A run that was begun: what was asked for, and what its results depend on besides."""

    request: Request
    provenance: Mapping[str, Any]
    weights: str
    """The checksum of the source network."""

    def write(self, folder: Path) -> None:
        """Write it into the run's folder, which is this run's alone from then on.

        Raises:
            ValueError: Another run was quicker; it is untouched.
        """
        stored = {"format": _FORMAT, **asdict(self)}
        if math.isinf(self.request.delta):
            stored["request"]["delta"] = None  # JSON has no infinity
        write_first(folder, json.dumps(stored, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Begun":
        """Read it.

        Raises:
            ValueError: There is none, or it cannot be read; the message says what to do.
        """
        from rotta.streams.arrivals import PARAMETERS, without_unused  # takes its time

        path = folder / REQUEST
        if not path.is_file():
            raise ValueError(f"there is no {path}: --resume takes the folder of a run")
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            number, request = stored["format"], dict(stored["request"])
            if number == _FORMAT and set(request) == {field.name for field in fields(Request)}:
                if request["delta"] is None:
                    request["delta"] = math.inf
                # older runs state a length and an imbalance, whether they mean something or not
                request = dict.fromkeys(PARAMETERS) | without_unused(request)
                begun = cls(Request(**request), dict(stored["provenance"]), stored["weights"])
                begun._check()
                return begun
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}): start a new run") from error
        raise ValueError(f"{path} was written by another version of rotta: resume with that one")

    def _check(self) -> None:
        """Refuse what :meth:`write` never writes.

        Raises:
            TypeError: Names it.
        """
        for field, kind in get_type_hints(Request).items():
            if not _is_a(getattr(self.request, field), kind):
                raise TypeError(f"{field} is {getattr(self.request, field)!r}")
        if not self.request.seeds:
            raise TypeError("there are no seeds")
        for field in ("jobs", "threads"):  # the others are refused where they are used
            number = getattr(self.request, field)
            if not 1 <= number < _TOO_MANY:
                raise TypeError(f"{field} is {number}")
        for name in ("versions", "data"):
            if not isinstance(self.provenance.get(name), dict):
                raise TypeError(f"it does not hold {name}")

    def check_unchanged(
        self, versions: Mapping[str, str], kernels: str, data: Mapping[str, str], weights: str
    ) -> None:
        """Refuse to go on where the rest of the results would not fit to the first.

        Args:
            versions: Of the packages, now.
            kernels: Which normalise here.
            data: The dataset's record of its files.
            weights: The checksum of the source network.

        Raises:
            ValueError: One of them is not as it was.
        """
        begun = self.provenance
        for package, version in begun["versions"].items():
            if versions.get(package) != version:
                raise ValueError(
                    f"the run was begun with {package} {version}, and this is "
                    f"{versions.get(package)}: install that, or start a new run"
                )
        then = begun.get("cpu kernels", "none")  # older runs had none
        if then != kernels:
            raise ValueError(
                f"the run was begun with normalisation kernels {then}, and here they "
                f"are {kernels}: go on with it on a machine as before, with rotta installed where "
                "there is a C compiler or not and ROTTA_NATIVE set or not as then; or start a new "
                "run"
            )
        if begun["data"] != dict(data):
            raise ValueError("the dataset is not what it was when the run began: start a new run")
        if self.weights != weights:
            raise ValueError(
                "the source model has not the weights that it had when the run began: put them "
                "back, or start a new run"
            )


def _is_a(value: object, kind: Any) -> bool:
    """Whether JSON's value is of a type of :class:`Request`.

    Example:
        >>> _is_a([0, 1], list[int]), _is_a(1, float), _is_a("1", int | None), _is_a(True, int)
        (True, True, False, False)
    """
    if isinstance(kind, UnionType):
        return any(_is_a(value, each) for each in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is_a(each, get_args(kind)[0]) for each in value)
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind
