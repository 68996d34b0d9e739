"""``rotta run``: methods over a stream."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotta.cli import options
from rotta.cli.console import Stopped, download_question, output, say
from rotta.cli.run_folder import check_vacant, claim, run_name

if TYPE_CHECKING:
    from collections.abc import Generator

    from rotta.cli.live import Live
    from rotta.comparison import Failed, Finished
    from rotta.models.classifier import Classifier
    from rotta.record import Record
    from rotta.streams import Stream

_SLOW = "cotta"  # left out unless asked for: 32 passes per batch


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
    methods: Annotated[
        str | None,
        typer.Option(
            help="Separated by commas: source, bn, pl, tent, lame, cotta, note, rotta; or all. "
            "Options follow a colon: rotta,note:lr=0.001. Every one but cotta if left out.",
            metavar="NAMES",
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
    seed: Annotated[
        int | None,
        typer.Option(help="Of the stream and the methods; 0 if left out.", min=0, max=2**63 - 1),
    ] = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    split: options.Split = "test",
    image_size: options.ImageSize = None,
    frost: options.Frost = None,
    device: options.Device = "auto",
    jobs: options.Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where the result goes; a new folder in runs/ if left out.",
            metavar="DIR",
        ),
    ] = None,
    yes: options.Yes = False,
) -> None:
    """Compare methods on one stream: a table, a page to look at, and all figures as JSON.

    With no options: handwritten digits under fifteen corruptions, nothing to download.

    Example: `rotta run --dataset cifar10-c --source cifar10-wrn40-2-augmix --limit 1000`
    """
    from rotta.adapters.choice import parse_methods
    from rotta.cli.live import Live
    from rotta.comparison import compare, configuration
    from rotta.datasets import load_dataset
    from rotta.models.sources import source_for
    from rotta.record import Record
    from rotta.report.stream_picture import draw_stream
    from rotta.results import provenance
    from rotta.streams import Stream

    where = options.pick_device(device)
    chosen = parse_methods(_quick_methods() if methods is None else methods)
    every_seed = options.parse_seeds(seed, seeds)
    labels = [choice.label for choice in chosen]
    at_once = options.pick_jobs(jobs, where, len(labels) * len(every_seed))
    if out is not None:
        check_vacant(out)
    with Live(labels, len(every_seed)) as live:
        data = load_dataset(
            dataset,
            split=split,
            limit=limit,
            frost=frost,
            image_size=image_size,
            device=where,
            download=download_question(yes),
            progress=live.images,
        )

        def stream_of(drawn_with: int) -> Stream:
            return Stream(
                data,
                setting=setting,
                delta=delta,
                order=options.parse_order(order),
                severity=severity,
                visits=visits,
                batch_size=batch_size,
                seed=drawn_with,
                device=where,
            )

        first = stream_of(every_seed[0])
        source = source or source_for(dataset)
        net = _network(source, dataset, len(data.classes))
        walks = compare(chosen, net, every_seed, stream_of, live.look, at_once)
        config = {
            **configuration(dataset, source, first),
            "limit": limit,
            "split": split,
            "jobs": at_once,
            "options": {choice.label: choice.settings for choice in chosen},
        }
        origin = provenance(where, data.provenance, threads=1 if at_once > 1 else None)
        folder = claim(out, run_name(dataset, setting, every_seed))
        record = Record(folder / "result.json", labels, every_seed, config, origin)
        draw_stream([first], folder / "stream.png")
        live.rest()  # whatever forks should have no other thread beside it
        _follow(walks, record, live)
    _show(record, first)
    if methods is None:
        say(
            "CoTTA, 32 passes per batch, was left out: `rotta run --methods all` (and your other "
            "options) adds it"
        )
    if record.failed:
        raise typer.Exit(1)


def _quick_methods() -> str:
    from rotta.adapters import METHODS

    return ",".join(name for name in METHODS if name != _SLOW)


def _network(source: str, dataset: str, classes: int) -> "Classifier":
    """The source model, if it was trained on what the dataset holds."""
    from rotta.models import load_source
    from rotta.models.sources import check_trained_on

    check_trained_on(source, dataset)
    net = load_source(source)
    if net.head.out_features != classes:
        raise ValueError(
            f"{source} tells {net.head.out_features} classes apart, {dataset} has {classes}: "
            "give a --source that was trained on the same classes"
        )
    return net


def _follow(
    walks: "Generator[Finished | Failed, None, None]", record: "Record", live: "Live"
) -> None:
    """Keep and show what each walk brings.

    Raises:
        Stopped: by Ctrl-C; the message says where the finished walks are.
    """
    try:
        with closing(walks):
            for end in walks:
                record.add(end)
                live.end(end)
    except KeyboardInterrupt:
        if not record.walks:
            raise Stopped("nothing was finished") from None
        kept = f"what was finished is in {record.path}, see `rotta report {record.path.parent}`"
        raise Stopped(kept) from None


def _show(record: "Record", stream: "Stream") -> None:
    """Print the table and where the files are."""
    from rotta.cli.table import terminal_table
    from rotta.report.page import write_page
    from rotta.report.runs import load_run
    from rotta.report.tables import comparison_table

    result, folder = record.result(), record.path.parent
    if not result.methods:
        return
    seeds, jobs = len(result.config["seeds"]), result.config["jobs"]
    say(
        f"{_counted(len(result.methods), 'method')} over {_counted(len(stream), 'batch', 'es')}, "
        f"{_counted(stream.num_samples, 'image')}, {stream.setting.title}"
        + (f", mean of {seeds} seeds" if seeds > 1 else "")
        + (f", with {jobs} at a time, one thread each" if jobs > 1 else "")
    )
    output.print(terminal_table(comparison_table(result), output))
    write_page([load_run(folder)], folder / "report.html")
    say(f"page to look at: {folder / 'report.html'}")
    say(f"all figures: {record.path}")
    say(f"picture of the stream: {folder / 'stream.png'}")


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
