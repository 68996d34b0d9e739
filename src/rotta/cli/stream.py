"""``rotta stream``: the picture of a test stream."""

from pathlib import Path
from typing import Annotated

import typer

from rotta.cli import options
from rotta.cli.console import download_question, progress_bar, say


def stream(
    out: Annotated[Path, typer.Option(help="The picture, .png or .svg.")] = Path("stream.png"),
    dataset: Annotated[str, typer.Option(help="See `rotta list datasets`.")] = "digits-c",
    deltas: Annotated[
        str | None,
        typer.Option(
            help="Concentrations δ, one row each; inf is independent. 10,1,0.1,0.01 if left out; "
            "0.1 if several arrivals are named.",
            metavar="A,B,C",
        ),
    ] = None,
    arrivals: Annotated[
        str,
        typer.Option(
            help="How samples arrive, one row each, or all: see `rotta list streams`.",
            metavar="NAMES",
        ),
    ] = "steady",
    length: options.Length = None,
    imbalance: options.Imbalance = None,
    order: options.Order = None,
    severity: options.Severity = 5,
    split: options.Split = "test",
    visits: options.Visits = 1,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    yes: options.Yes = False,
) -> None:
    """Draw which classes and which domains arrive when, for several δ or several arrivals.

    The smaller δ, the longer one class stays: the paper's stream figure for your own data.

    Example: `rotta stream --dataset cifar10-c --deltas inf,1,0.1,0.001 --out stream.svg`

    Example: `rotta stream --arrivals steady,burst,freeze --length 500`
    """
    from rotta.datasets import load_dataset
    from rotta.registry import lookup
    from rotta.report.stream_picture import draw_stream
    from rotta.streams import ARRIVALS, Stream
    from rotta.streams.arrivals import check_taken

    named = list(ARRIVALS) if arrivals == "all" else options.names(arrivals)
    ways = [lookup(ARRIVALS, name, "arrival") for name in named]
    if not ways:
        raise ValueError("no arrival was named: see `rotta list streams`")
    check_taken(ways, length=length, imbalance=imbalance)
    concentrations = "10,1,0.1,0.01" if len(ways) == 1 else "0.1"
    with progress_bar("loading") as progress:
        data = load_dataset(
            dataset,
            split=split,
            limit=limit,
            download=download_question(yes),
            progress=progress,
        )
    rows = [
        Stream(
            data,
            delta=delta,
            order=options.parse_order(order),
            severity=severity,
            visits=visits,
            seed=seed,
            arrival=arrival.name,
            **arrival.given(length=length, imbalance=imbalance),
        )
        for arrival in ways
        for delta in options.numbers(deltas or concentrations, "--deltas")
    ]
    draw_stream(rows, out)
    say(f"{out}: {rows[0].num_samples:,} samples, {len(rows[0].domains)} domains")
