"""``rotta reproduce``: the paper's experiments."""

from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotta.adapters.precision import FULL, PRECISIONS
from rotta.cli import options
from rotta.cli.console import Stopped, download_question, output, progress_bar, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rotta.experiments import Experiment
    from rotta.experiments.reproduce import Engine, Plan, Wanted

_ENGINES = ("local", "ray")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experiments, such as table-cifar10, or all.", metavar="NAME…", show_default=False
        ),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Show the experiments and how far each is; with NAME, its streams and methods.",
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="2,000 images per domain. Results are kept apart, and say so wherever they are "
            "shown.",
        ),
    ] = False,
    seeds: Annotated[
        str, typer.Option(help="Of the streams; CoTTA takes the first only.", metavar="A,B,C")
    ] = "0",
    methods: Annotated[
        str,
        typer.Option(
            help="Only these, by pattern, separated by commas: 'rotta*,note'.", metavar="PATTERNS"
        ),
    ] = "*",
    variants: Annotated[
        str,
        typer.Option(
            help="Only these streams, by pattern, separated by semicolons: '*correlated*'.",
            metavar="PATTERNS",
        ),
    ] = "*",
    limit: options.Limit = None,
    precision: Annotated[
        str, typer.Option(help="Of RoTTA and CoTTA: float32; on CUDA also float16 or bfloat16.")
    ] = FULL,
    device: options.Device = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Walks (a method along a stream) at the same time, in processes of their own; "
            "on a GPU they share the card. One per core on the CPU, one on a GPU, if left out.",
            metavar="N",
            min=1,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local, or ray: a Ray cluster, each walk a task.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster; started here if left out.", metavar="ADDRESS"),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Results are here, and continued from here.", metavar="DIR")
    ] = Path("results"),
    page: Annotated[
        Path | None,
        typer.Option(help="Write a page of all results in --out, as Markdown.", metavar="FILE"),
    ] = None,
    yes: options.Yes = False,
) -> None:
    """Run a table or figure of the paper, and put what is measured beside what is printed.

    Stopped or killed? Give the same command again: what is finished is kept.

    Example: `rotta reproduce table-cifar10 --seeds 0,1,2`

    Example: `rotta reproduce table-alpha table-nu --quick --device cuda --jobs 4`

    Example: `rotta reproduce --page docs/reproduction.md`
    """
    from rotta.experiments import EXPERIMENTS
    from rotta.experiments.page import write_page
    from rotta.experiments.reproduce import Wanted, plan
    from rotta.experiments.store import QUICK_LIMIT, claimed

    if quick and limit is not None:
        raise ValueError("--quick is --limit 2000: give one of them")
    if page is not None and page.is_dir():
        raise ValueError(f"--page is the file to write, and {page} is a folder: add a name")
    chosen = _chosen(names or [])
    wanted = Wanted(
        seeds=tuple(options.parse_seeds(None, seeds)),
        limit=QUICK_LIMIT if quick else limit,
        methods=tuple(options.names(methods)),
        variants=tuple(pattern.strip() for pattern in variants.split(";")),
        precision=precision,
        device=options.pick_device(device),
    )
    if show or not (chosen or page):
        _list(out, wanted, chosen)
        return
    worker = _engine(engine, address, jobs, wanted.device)
    _check_precision(precision, wanted.device)
    _check_data(chosen, out, wanted, yes)
    failed = 0
    with claimed(out):
        if chosen:
            failed = _run(plan(chosen, out, wanted), worker)
            for experiment in chosen:
                _show(experiment, out, wanted)
        if page is not None:
            write_page(EXPERIMENTS, out, page)
            say(f"page of all results: {page}")
    if failed:
        say(f"{failed} failed, see above: give the same command to try again")
        raise typer.Exit(1)


def _chosen(names: list[str]) -> "list[Experiment]":
    from rotta.experiments import EXPERIMENTS
    from rotta.registry import lookup

    if "all" in names:
        return list(EXPERIMENTS.values())
    return [lookup(EXPERIMENTS, name, "experiment") for name in dict.fromkeys(names)]


def _list(out: Path, wanted: "Wanted", chosen: "list[Experiment]") -> None:
    for experiment in chosen:
        _list_streams(experiment)
    if not chosen:
        _list_experiments(out, wanted)


def _list_streams(experiment: "Experiment") -> None:
    """What ``--variants`` and ``--methods`` choose from."""
    from rich.markup import escape
    from rich.table import Table

    say(f"{experiment.name}: {experiment.title}")
    table = Table(box=None, pad_edge=False)
    table.add_column("stream", no_wrap=True)
    table.add_column("methods")
    for variant in experiment.variants:
        table.add_row(escape(variant.name), escape(", ".join(variant.methods)))
    if experiment.variants:
        output.print(table)


def _list_experiments(out: Path, wanted: "Wanted") -> None:
    from rich.table import Table

    from rotta.experiments import EXPERIMENTS
    from rotta.experiments.reproduce import progress_of

    table = Table(box=None, pad_edge=False)
    for column in ("experiment", "what", "walks done", "needs"):
        table.add_column(column, no_wrap=column != "what")
    for experiment in EXPERIMENTS.values():
        done, total = progress_of(experiment, out, wanted.limit)
        state = f"{done} of {total}" if total else ""
        table.add_row(experiment.name, experiment.title, state, ", ".join(experiment.datasets))
    output.print(table)
    say("run one with `rotta reproduce NAME`; --quick takes 2,000 images per domain")


def _check_precision(precision: str, device: str) -> None:
    """Refuse now what would make walks fail later."""
    known = FULL, *PRECISIONS
    if precision not in known:
        raise ValueError(f"--precision is one of {', '.join(known)}, not {precision!r}")
    if precision != FULL and not device.startswith("cuda"):
        raise ValueError(f"--precision {precision} needs a GPU: add --device cuda, or leave it out")


def _check_data(chosen: "list[Experiment]", out: Path, wanted: "Wanted", yes: bool) -> None:
    """Find out now, not in the middle, that images or models are missing, or others than before."""
    from rotta.datasets import load_dataset
    from rotta.experiments.experiment import Training
    from rotta.experiments.reproduce import results_folder, wanted_variants
    from rotta.experiments.store import Store
    from rotta.models import load_source
    from rotta.models.checksum import checksum
    from rotta.models.sources import imagenet_file

    def data_of(name: str, split: str, image_size: int | None) -> "Mapping[str, str]":
        with progress_bar(f"loading {name}") as progress:
            return load_dataset(
                name,
                split=split,
                limit=wanted.limit,
                image_size=image_size,
                download=download_question(yes),
                progress=progress,
            ).provenance

    def weights_of(source: "str | Training") -> str | None:
        if not isinstance(source, Training):
            return checksum(load_source(source))
        if source.init == "imagenet":
            imagenet_file(source.arch)
        return None

    data_of, weights_of = cache(data_of), cache(weights_of)
    for experiment in chosen:
        for name in experiment.drawn_from:
            data_of(name, "test", None)
        store = Store(experiment, results_folder(out, experiment, wanted.limit))
        for variant in wanted_variants([experiment], wanted):
            data = data_of(variant.dataset, variant.split, variant.image_size)
            store.check_origin(variant, data, weights_of(variant.source))


def _engine(engine: str, address: str | None, jobs: int | None, device: str) -> "Engine":
    """Who does the work, once it is told where news go."""
    from functools import partial

    import torch

    from rotta.experiments.engines import run
    from rotta.side_by_side import automatic_jobs

    if engine not in _ENGINES:
        raise ValueError(f"--engine is one of {', '.join(_ENGINES)}, not {engine!r}")
    if engine == "ray":
        from rotta.experiments.distributed import run_on_ray

        share = 1 / (jobs or 1) if device.startswith("cuda") else 0.0
        return partial(run_on_ray, address=address, gpus_per_task=share)
    if address is not None:
        raise ValueError("--address is that of a Ray cluster: add --engine ray")
    many = 1000  # more than there are cores
    return partial(run, jobs=jobs or automatic_jobs(many, torch.device(device)))


def _run(todo: "Plan", engine: "Engine") -> int:
    """Do what is missing; how much of it failed."""
    from rotta.cli.grid_live import GridLive
    from rotta.experiments.engines import Broken
    from rotta.experiments.reproduce import carry_out

    if todo.finished:
        say(f"{todo.finished} of {todo.finished + len(todo.walks)} walks are finished already")
    if trainings := len(todo.trainings()):
        say(f"source models to train first, or to find again: {trainings}")
    failed = 0
    with GridLive(len(todo.walks)) as live, closing(carry_out(todo, engine, live.look)) as ends:
        try:
            for task, end in ends:
                failed += isinstance(end, Broken)
                live.end(task, end)
        except KeyboardInterrupt:
            raise Stopped("finished walks are kept: give the same command to go on") from None
    return failed


def _show(experiment: "Experiment", out: Path, wanted: "Wanted") -> None:
    """Write tables and figures, and print the first table."""
    from rotta.cli.table import beside_table
    from rotta.experiments.page import presented, write_files
    from rotta.experiments.reproduce import results_folder
    from rotta.experiments.store import load
    from rotta.report.beside import titled

    # pictures that need no walk are the same however few images walks are over
    limit = wanted.limit if experiment.variants else None
    folder = results_folder(out, experiment, limit)
    blocks = load(folder)
    files = write_files(experiment, blocks, folder)
    grids = presented(experiment, blocks, limit).grids
    if grids and blocks:
        title = titled(grids[0].title, grids[0].note)
        say(title + (", printed in brackets" if grids[0].printed else ""))
        output.print(beside_table(grids[0]))
    suffixes = ", ".join(dict.fromkeys(file.suffix for file in files))
    say(f"{experiment.name}: " + (f"{suffixes} files in {folder}" if files else "no results yet"))
