"""``rotta run``: methods over a stream."""

from pathlib import Path
from typing import Annotated

import typer

from rotta.cli import options
from rotta.cli.console import say
from rotta.cli.run_folder import check_vacant
from rotta.cli.run_request import Request

_SLOW = "cotta"  # left out unless asked for: 32 passes per batch
_BESIDE_RESUME = ("resume", "checkpoint_every", "yes")


def run(
    context: typer.Context,
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
            help="Separated by commas: source, bn, pl, tent, lame, cotta, note, rotta, "
            "rotta-lasting; or all. Options follow a colon: rotta,note:lr=0.001. If left out, "
            "those of the paper but cotta, which takes ten times as long as any other.",
            metavar="NAMES",
        ),
    ] = None,
    setting: options.Setting = "ptta",
    delta: Annotated[
        float, typer.Option(help="Dirichlet concentration: smaller is more correlated.")
    ] = 0.1,
    arrival: Annotated[
        str,
        typer.Option(
            help="steady, gradual, mixed, long-tail, burst or freeze: see `rotta list streams`.",
            metavar="NAME",
        ),
    ] = "steady",
    length: options.Length = None,
    imbalance: options.Imbalance = None,
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
    checkpoint_every: Annotated[
        float,
        typer.Option(
            help="Seconds after which each walk is saved, for --resume; 0 for never.",
            metavar="SECONDS",
            min=0,
        ),
    ] = 60.0,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with a run that was stopped or killed, as it was asked for.", metavar="DIR"
        ),
    ] = None,
    yes: options.Yes = False,
) -> None:
    """Compare methods on one stream: a table, a page to look at, and all figures as JSON.

    With no options: handwritten digits under fifteen corruptions, nothing to download.

    Example: `rotta run --dataset cifar10-c --source cifar10-wrn40-2-augmix --limit 1000`
    """
    import torch

    from rotta.adapters.choice import parse_methods
    from rotta.cli import performing

    if resume is not None:
        _refuse_what_changes_a_run(context)
        record = performing.resume(resume, checkpoint_every, yes)
    else:
        chosen = parse_methods(_quick_methods() if methods is None else methods)
        where = options.pick_device(device)
        every_seed = options.parse_seeds(seed, seeds)
        at_once = options.pick_jobs(jobs, where, len(chosen) * len(every_seed))
        if out is not None:
            check_vacant(out)
        request = Request(
            dataset=dataset,
            source=source,
            methods=",".join(choice.label for choice in chosen),
            setting=setting,
            delta=delta,
            arrival=arrival,
            length=length,
            imbalance=imbalance,
            order=order,
            severity=severity,
            visits=visits,
            batch_size=batch_size,
            seeds=every_seed,
            limit=limit,
            split=split,
            image_size=image_size,
            frost=None if frost is None else str(frost),
            device=where,
            jobs=at_once,
            threads=1 if at_once > 1 else torch.get_num_threads(),
        )
        record = performing.start(request, out, checkpoint_every, yes)
        if methods is None:
            say(
                "CoTTA, 32 passes per batch, was left out: `rotta run --methods all` (and your "
                "other options) adds it"
            )
    if record.failed:
        raise typer.Exit(1)


def _quick_methods() -> str:
    from rotta.adapters import PAPER_METHODS

    return ",".join(name for name in PAPER_METHODS if name != _SLOW)


def _refuse_what_changes_a_run(context: typer.Context) -> None:
    """Beside --resume, there is nothing more to say about a run."""
    for name in context.params:
        given = context.get_parameter_source(name)
        if name not in _BESIDE_RESUME and given is not None and given.name == "COMMANDLINE":
            raise ValueError(
                f"--resume goes on with a run as it was asked for: leave out "
                f"--{name.replace('_', '-')}, or start a new run"
            )
