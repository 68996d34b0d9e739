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
        str, typer.Option(help="Concentrations δ, one row each; inf is independent.")
    ] = "10,1,0.1,0.01",
    order: options.Order = None,
    severity: options.Severity = 5,
    split: options.Split = "test",
    visits: options.Visits = 1,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    yes: options.Yes = False,
) -> None:
    """Draw which classes and which domains arrive when, for several δ.

    The smaller δ, the longer one class stays: the paper's stream figure for your own data.

    Example: `rotta stream --dataset cifar10-c --deltas inf,1,0.1,0.001 --out stream.svg`
    """
    from rotta.datasets import load_dataset
    from rotta.report.stream_picture import draw_stream
    from rotta.streams import Stream

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
        )
        for delta in options.numbers(deltas, "--deltas")
    ]
    draw_stream(rows, out)
    say(f"{out}: {rows[0].num_samples:,} samples, {len(rows[0].domains)} domains")
