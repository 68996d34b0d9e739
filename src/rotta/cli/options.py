"""Options that several commands share, with their help."""

from pathlib import Path
from typing import Annotated

import typer

_LARGEST_SEED = 2**63 - 1
Seed = Annotated[int, typer.Option(help="Of everything random.", min=0, max=_LARGEST_SEED)]
Seeds = Annotated[
    str | None,
    typer.Option(help="Several, as in 0,1,2: one stream each, then the mean.", metavar="A,B,C"),
]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N; auto takes a GPU if there is one.")]
Limit = Annotated[
    int | None, typer.Option(help="Only the first N images of each domain.", metavar="N", min=1)
]
Frost = Annotated[
    Path | None,
    typer.Option(
        help="A folder of frost pictures of your own, instead of those that are found.",
        metavar="DIR",
    ),
]
Split = Annotated[str, typer.Option(help="test; for `domains:PATH` also train or all.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        help="Walks at the same time on the CPU, one thread each; 1 for one after the other with "
        "all threads. One per core if left out, where there are as many.",
        metavar="N",
        min=1,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Download what is missing without asking.")]
Setting = Annotated[
    str, typer.Option(help="fully, continual, non-iid or ptta: see `rotta list streams`.")
]
Order = Annotated[
    str | None,
    typer.Option(
        help="Domains in the order of their visit, a,b,c; or 0 to 9 for one of the paper's ten.",
        metavar="ORDER",
    ),
]
Severity = Annotated[int, typer.Option(help="Of the corruptions, 1 to 5.")]
Visits = Annotated[int, typer.Option(help="How often the whole order comes round.")]
Length = Annotated[
    int | None, typer.Option(help="Samples of a burst or a freeze; 200 if left out.", metavar="N")
]
Imbalance = Annotated[
    float | None,
    typer.Option(
        help="Of the first class to the last, for long-tail; 100 if left out.", metavar="FACTOR"
    ),
]
BatchSize = Annotated[int, typer.Option(help="Images per batch, from 1.")]
ImageSize = Annotated[
    int | None,
    typer.Option(
        help="Side of the images of pacs, domainnet and `domains:PATH`, in pixels; if left out, "
        "that of the first if it is square and at most 224, else 224; for `rotta run`, that with "
        "which the source was trained, where its file says it.",
        metavar="PX",
    ),
]


def names(text: str) -> list[str]:
    """``"a, b"`` to ``["a", "b"]``."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_order(text: str | None) -> int | list[str] | None:
    """An order as :class:`rotta.Stream` takes it."""
    if text is None:
        return None
    return int(text) if text.strip().isdecimal() else names(text)


def numbers(text: str, option: str) -> list[float]:
    """``"10,1,inf"`` to floats.

    Raises:
        ValueError: something between the commas is no number.
    """
    try:
        return [float(part) for part in names(text)]
    except ValueError as error:
        raise ValueError(f"{option} takes numbers separated by commas, not {text!r}") from error


def whole_numbers(text: str, option: str) -> list[int]:
    """``"1,5"`` to integers.

    Raises:
        ValueError: something between the commas is no whole number.
    """
    try:
        return [int(part) for part in names(text)]
    except ValueError as error:
        message = f"{option} takes whole numbers separated by commas, not {text!r}"
        raise ValueError(message) from error


def parse_seeds(seed: int | None, seeds: str | None) -> list[int]:
    """Those of ``--seed`` or ``--seeds``; 0 if neither was given.

    Raises:
        ValueError: Both were given, or what was given is no list of different seeds.
    """
    if seeds is None:
        return [seed or 0]
    if seed is not None:
        raise ValueError(f"give --seed or --seeds, not both: --seeds {seed},{seeds}")
    chosen = whole_numbers(seeds, "--seeds")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"--seeds takes different numbers, such as 0,1,2, not {seeds!r}")
    if not all(0 <= number <= _LARGEST_SEED for number in chosen):
        raise ValueError(f"--seeds takes numbers from 0 to {_LARGEST_SEED}, not {seeds}")
    return chosen


def pick_jobs(jobs: int | None, device: str, walks: int) -> int:
    """Those of ``--jobs``, or as many as suit the machine; no more than there are walks.

    Raises:
        ValueError: So many cannot be on that device.
    """
    import torch

    from rotta.side_by_side import automatic_jobs, check_jobs

    if jobs is None:
        return automatic_jobs(walks, torch.device(device))
    check_jobs(jobs, torch.device(device))
    return min(jobs, walks)


def pick_device(text: str) -> str:
    """``auto`` to ``cuda`` or ``cpu``; a CUDA device that is not there is refused.

    Raises:
        ValueError: no such device.
    """
    import torch

    if text == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise ValueError(f"unknown device {text!r}: use cpu, cuda, cuda:N or auto") from error
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"{text} is not supported: use cpu, cuda, cuda:N or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there is no {text} here: use --device cpu")
    return text
