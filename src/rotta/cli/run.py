"""``rotta run``: methods over a stream."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rotta.cli import options
from rotta.cli.console import StreamBar, download_question, output, say, stream_bar

if TYPE_CHECKING:
    from rotta.adapters import Source
    from rotta.results import MethodResult
    from rotta.streams import Stream

_BATCHES_PER_LOOK = 5


def run(
    dataset: Annotated[str, typer.Option(help="See `rotta list datasets`.")] = "digits-c",
    source: Annotated[
        str | None,
        typer.Option(
            help="A source model by name (`rotta list sources`), or a weight file; the dataset's "
            "own if left out.",
            metavar="NAME",
        ),
    ] = None,
    setting: options.Setting = "ptta",
    delta: Annotated[
        float, typer.Option(help="Dirichlet concentration: smaller is more correlated.")
    ] = 0.1,
    order: options.Order = None,
    severity: options.Severity = 5,
    visits: options.Visits = 1,
    batch_size: options.BatchSize = 64,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    split: options.Split = "test",
    image_size: options.ImageSize = None,
    frost: options.Frost = None,
    device: options.Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the result goes; a new folder in runs/ if left out.",
            metavar="DIR",
        ),
    ] = None,
    yes: options.Yes = False,
) -> None:
    """Show the stream, and how often the source model is wrong on it.

    With no options: handwritten digits under fifteen corruptions, nothing to download.

    Example: `rotta run --dataset cifar10-c --source cifar10-wrn40-2-augmix --limit 1000`
    """
    from rotta.adapters import Source
    from rotta.datasets import load_dataset
    from rotta.models import load_source
    from rotta.models.sources import check_trained_on, source_for
    from rotta.report.stream_picture import draw_stream
    from rotta.results import Result, provenance
    from rotta.streams import Stream

    where = options.pick_device(device)
    with stream_bar() as bar:
        data = load_dataset(
            dataset,
            split=split,
            limit=limit,
            seed=seed,
            frost=frost,
            image_size=image_size,
            device=where,
            download=download_question(yes),
            progress=bar.images,
        )
        source = source or source_for(dataset)
        check_trained_on(source, dataset)
        net = load_source(source)
        if net.head.out_features != len(data.classes):
            raise ValueError(
                f"{source} tells {net.head.out_features} classes apart, {dataset} has "
                f"{len(data.classes)}: give a --source that was trained on the same classes"
            )
        shown = Stream(
            data,
            setting=setting,
            delta=delta,
            order=options.parse_order(order),
            severity=severity,
            visits=visits,
            batch_size=batch_size,
            seed=seed,
            device=where,
        )
        folder = _writable(out or _free_folder(f"{_file_name(dataset)}-{setting}-seed{seed}"))
        scored = _score(Source(net.to(where)), shown, bar)
    draw_stream([shown], folder / "stream.png")
    config = {
        "dataset": dataset,
        "source": source,
        "setting": setting,
        "delta": shown.delta,
        "order": list(shown.domains),
        "severity": severity,
        "visits": visits,
        "batch_size": batch_size,
        "seeds": [seed],
        "limit": limit,
        "split": split,
    }
    record = provenance(where, data.provenance)
    Result({"source": scored}, config, record).save(folder / "result.json")
    _print(scored, shown)
    say(f"picture of the stream: {folder / 'stream.png'}")
    say(f"figures: {folder / 'result.json'}")


def _score(method: "Source", stream: "Stream", bar: StreamBar) -> "MethodResult":
    """Run the loop; the bar shows where the stream is and the error so far."""
    from rotta.evaluate import evaluate
    from rotta.metrics import ErrorByDomain
    from rotta.results import MethodResult
    from rotta.stopwatch import Stopwatch

    errors = ErrorByDomain(stream.domains, stream.device)
    timed = Stopwatch(method, stream.device)
    batches = len(stream)
    for step in evaluate(timed, stream):
        errors.add(step)
        if step.batch.number % _BATCHES_PER_LOOK == 0:  # a look waits for the device
            domain = stream.domains[int(step.batch.domain[-1])]
            bar.batch(step.batch.number, batches, f"{domain}, error {errors.average():.1f} %")
    return MethodResult(errors.average(), errors.per_domain(), timed.median_ms())


def _print(scored: "MethodResult", stream: "Stream") -> None:
    say(
        f"source model over {len(stream):,} batches, {stream.num_samples:,} images, "
        f"{stream.setting.title}",
    )
    table = Table("domain", "error %", "", box=None)
    for name, error in scored.per_domain.items():
        table.add_row(escape(name), f"{error:.1f}", "█" * round(error / 2.5))
    table.add_section()
    table.add_row("[bold]average[/]", f"[bold]{scored.average_error:.1f}[/]")
    output.print(table)


def _file_name(dataset: str) -> str:
    """``domains:/data/pacs`` to ``domains-pacs``."""
    kind, _, path = dataset.partition(":")
    return f"{kind}-{Path(path).name}" if path else kind


def _free_folder(name: str) -> Path:
    """``runs/<name>``, or with a number after it: a run never replaces another unasked."""
    wanted = Path("runs") / name
    number = 1
    while wanted.exists():
        number += 1
        wanted = wanted.with_name(f"{name}-{number}")
    return wanted


def _writable(folder: Path) -> Path:
    """Make the folder now, so that a run that cannot be kept does not even start."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give --out another name")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
