"""``rotta bench``: how fast the methods are."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotta.cli import options
from rotta.cli.console import output, progress_bar, say, say_what_begins

if TYPE_CHECKING:
    from rich.table import Table

    from rotta.bench.benchmark import Benchmark, Settings

_NOT_MEASURED = "–"
_WITHOUT_KERNELS = (
    "normalisation by PyTorch's kernels: ours were not compiled when rotta was installed, for want "
    "of a C compiler with OpenMP; or they are of other sources than these, and rotta is to be "
    "installed anew; or ROTTA_NATIVE=0 switched them off"
)


def bench(
    model: Annotated[
        str,
        typer.Option(
            help="An architecture, which gets random weights, or a source model by name.",
            metavar="NAME",
        ),
    ] = "wrn-40-2",
    device: options.Device = "cpu",
    methods: Annotated[
        str | None,
        typer.Option(
            help="As for `rotta run`: rotta,note:lr=0.001. All if left out, and on CUDA RoTTA also "
            "without graphs and in half precision.",
            metavar="NAMES",
        ),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(help="Images per call; 1,8,64,256 if left out.", metavar="A,B,C"),
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(help="Side of the images; 32 or 64, as suits the model.", metavar="PX", min=8),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(help="Outputs of an architecture; 10 if left out.", metavar="N", min=2),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="For each line of the table, 5 if left out; at least 3 rounds, at most 200.",
            metavar="S",
            min=0.0,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="The figures that matter most, for wrn-40-2 within 45 seconds on two cores.",
        ),
    ] = False,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write all figures there.", metavar="FILE")
    ] = None,
) -> None:
    """Measure how long the methods take: to predict, and to predict and update.

    All are measured in one process, one round of each in turn, on the same
    images. A round is as many calls as bring a whole number of updates; times
    are per call. Beside the methods stand:

    `floor`: RoTTA's passes with the framework's BatchNorm, without bank,
    augmentation and moving average; what goes beyond it is bookkeeping.

    `bare`: the network alone.

    `plain`: RoTTA the obvious way, sample by sample, in benchmarks/.

    Without --quick a CPU is busy for many minutes, with CoTTA above all; name
    the --methods that matter. Leave the machine alone meanwhile.

    Example: `rotta bench --model resnet-18 --methods rotta --batch-sizes 1,64`
    """
    from rotta.bench.benchmark import benchmark
    from rotta.nn import native

    settings = _settings(model, device, methods, batch_sizes, image_size, classes, seconds, quick)
    if json is not None:
        _check_writable(json)
    with progress_bar("measuring") as bar:

        def progress(done: int, total: int) -> None:
            if not done:  # nothing was refused
                say_what_begins(_in_words(settings, total, json))
            bar(done, total)

        result = benchmark(settings, progress)
    output.print(_table(result))
    for reason in result.left_out:
        say(f"left out: {reason}")
    say(_insertion(result))
    if settings.device == "cpu" and native.level() == "none":
        say(_WITHOUT_KERNELS)
    say(_verdict(result))
    if json is not None:  # after the table: if that fails, minutes of measuring are not lost
        result.save(json)
        say(f"all figures: {json}")


def _settings(
    model: str,
    device: str,
    methods: str | None,
    batch_sizes: str | None,
    image_size: int | None,
    classes: int | None,
    seconds: float | None,
    quick: bool,
) -> "Settings":
    from rotta.adapters.choice import parse_methods
    from rotta.bench.benchmark import SECONDS, Settings
    from rotta.bench.plan import BATCH_SIZES

    if quick and (batch_sizes is not None or seconds is not None):
        raise ValueError(
            "--quick has batch sizes and times of its own: leave out --batch-sizes and --seconds, "
            "or --quick"
        )
    return Settings(
        model=model,
        device=options.pick_device(device),
        methods=None if methods is None else parse_methods(methods),
        batch_sizes=BATCH_SIZES if batch_sizes is None else _sizes(batch_sizes),
        image_size=image_size,
        num_classes=classes,
        seconds=SECONDS if seconds is None else seconds,
        quick=quick,
    )


def _in_words(settings: "Settings", measurements: int, json: Path | None) -> str:
    methods = ", ".join(choice.label for choice in settings.chosen())
    begins = f"measuring {methods} with {settings.model} on {settings.device}"
    return f"{begins}; a table of {measurements} lines follows" + (f", then {json}" if json else "")


def _sizes(text: str) -> list[int]:
    sizes = options.whole_numbers(text, "--batch-sizes")
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        raise ValueError(f"--batch-sizes takes different numbers from 1 on, not {text!r}: 1,64")
    return sizes


def _check_writable(path: Path) -> None:
    """See before minutes of measuring whether the file can be written.

    Raises:
        ValueError: It cannot; the message says what to do.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give --json the name of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file: give --json the name of one")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write {path}: give --json another place")


def _table(result: "Benchmark") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    from rotta.bench.summary import over_floor

    table = Table(box=None, header_style="")
    for number, heading in enumerate(
        ("", "does", "batch", "median ms", "p95 ms", "rounds", "memory MiB", "× floor")
    ):
        table.add_column(heading, justify="left" if number < 2 else "right", no_wrap=number < 2)
    rows = sorted(result.measurements, key=lambda m: (m.batch, m.what))
    for m, following in zip(rows, [*rows[1:], rows[-1]], strict=True):
        ratio = over_floor(m, result.measurements)
        table.add_row(
            escape(m.subject),
            m.what,
            str(m.batch),
            f"{m.median_ms:.4g}",
            f"{m.p95_ms:.4g}",
            str(m.rounds),
            f"{m.peak_memory_mib:.0f}",
            _NOT_MEASURED if ratio is None else f"{ratio:.2f}",
            end_section=(m.batch, m.what) != (following.batch, following.what),
        )
    return table


def _insertion(result: "Benchmark") -> str:
    times = [f"{ms:.2g} ms with {int(many):,} classes" for many, ms in result.insert_ms.items()]
    return f"64 samples into a full bank of 64: {', '.join(times)}"


def _verdict(result: "Benchmark") -> str:
    """The two ratios in a sentence."""
    over_floor, over_rotta = result.summary.rotta_over_floor, result.summary.plain_over_rotta
    if over_floor is None:
        return "no ratios: they need rotta among the --methods and 64 among the --batch-sizes"
    text = f"to predict and update at batch 64, RoTTA takes {over_floor:.2f} × the floor"
    if over_rotta is not None:
        text += f", and the plain implementation {over_rotta:.2f} × RoTTA"
    return text
