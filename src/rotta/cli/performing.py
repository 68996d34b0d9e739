"""What ``rotta run`` does, from the beginning or from where it was broken off."""

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rotta.adapters.choice import MethodChoice, parse_methods
from rotta.checkpoint import Checkpoints
from rotta.cli import options
from rotta.cli.allocator import give_freed_memory_back
from rotta.cli.console import Stopped, download_question, output, say, say_what_begins, warn
from rotta.cli.live import Live
from rotta.cli.run_folder import CHECKPOINTS, claim, held, run_name
from rotta.cli.run_request import Begun, Request
from rotta.cli.table import terminal_table
from rotta.comparison import check_methods, compare, configuration
from rotta.datasets import entry_of, load_dataset
from rotta.datasets.base import Dataset
from rotta.models import load_source
from rotta.models.checksum import checksum
from rotta.models.classifier import Classifier
from rotta.models.sources import check_trained_on, source_for, trained_size
from rotta.record import Record
from rotta.report.incident_words import incident_words
from rotta.report.names import method_name
from rotta.report.page import write_page
from rotta.report.runs import load_run
from rotta.report.stream_picture import draw_stream
from rotta.report.tables import comparison_table
from rotta.report.visits import visit_errors
from rotta.results import Result, kernels_on, provenance
from rotta.streams import Stream
from rotta.versions import versions


def start(request: Request, out: Path | None, every: float, yes: bool) -> Record:
    """Begin a run in a new folder.

    Args:
        request: What is asked for.
        out: The folder, if the user named one.
        every: Seconds between checkpoints; 0 for none.
        yes: Whether to download without asking.

    Raises:
        ValueError: Something cannot be as it was asked for; nothing was written.
    """
    request = replace(request, image_size=_image_size(request))
    with _live(request) as live:
        ready = _made_ready(request, live, yes)
        check_methods(ready.choices, ready.net, ready.first)
        threads = 1 if request.jobs > 1 else None
        origin = provenance(request.device, ready.data.provenance, threads=threads)
        folder = claim(out, run_name(request.dataset, request.setting, request.seeds))
        Begun(request, origin, checksum(ready.net)).write(folder)
        record = ready.record(folder, origin)
        with held(folder):
            ready.walk(record, every, live)
    _show(record, ready.first)
    return record


def resume(folder: Path, every: float, yes: bool) -> Record:
    """Go on with a run: walks that are finished stay, others go on from their checkpoints.

    Args:
        folder: Of the run.
        every: Seconds between checkpoints; 0 for none.
        yes: Whether to download without asking.

    Raises:
        ValueError: There is no such run, or what it depends on has changed.
    """
    begun = Begun.read(folder)
    request = begun.request
    options.pick_device(request.device)  # it may not be there any more
    with held(folder), _live(request) as live:
        ready = _made_ready(request, live, yes)
        kernels = kernels_on(request.device)
        begun.check_unchanged(versions(), kernels, ready.data.provenance, checksum(ready.net))
        record = ready.record(folder, begun.provenance)
        if record.path.exists():
            record.take_up(Result.load(record.path))
        if record.complete and (folder / "report.html").exists():
            say(f"{folder} is complete: see {folder / 'report.html'}")
            return record
        if request.device == "cpu" and request.jobs == 1:
            torch.set_num_threads(request.threads)
        ready.walk(record, every, live)
    _show(record, ready.first)
    return record


@dataclass(frozen=True)
class _Ready:
    """Dataset, network and methods of a request."""

    request: Request
    data: Dataset
    net: Classifier
    choices: list[MethodChoice]
    first: Stream
    """That of the first seed."""

    def record(self, folder: Path, origin: Mapping[str, Any]) -> Record:
        """The file of the result, with nothing in it yet."""
        request = self.request
        config = {
            **configuration(request.dataset, _source(request), self.first),
            "limit": request.limit,
            "split": request.split,
            "jobs": request.jobs,
            "options": {choice.label: choice.settings for choice in self.choices},
        }
        labels = [choice.label for choice in self.choices]
        return Record(folder / "result.json", labels, request.seeds, config, origin)

    def walk(self, record: Record, every: float, live: Live) -> None:
        """Do the walks that are not finished.

        Raises:
            Stopped: by Ctrl-C; the message says where the finished walks are, and how to go on.
        """
        folder = record.path.parent
        say_what_begins(self._in_words(folder))
        walks = compare(
            self.choices,
            self.net,
            self.request.seeds,
            lambda seed: _stream(self.request, self.data, seed),
            live.look,
            self.request.jobs,
            Checkpoints(folder / CHECKPOINTS, every or math.inf),
            record.finished,
        )
        draw_stream([self.first], folder / "stream.png")
        live.rest()  # whatever forks should have no other thread beside it
        give_freed_memory_back()
        try:
            with closing(walks):
                for end in walks:
                    record.add(end)
                    live.end(end)
        except KeyboardInterrupt:
            raise Stopped(_what_is_kept(record)) from None

    def _in_words(self, folder: Path) -> str:
        methods = ", ".join(choice.label for choice in self.choices)
        stream = f"{self.request.dataset}, {_counted(len(self.first), 'batch', 'es')}"
        if len(self.request.seeds) > 1:
            stream += f" for each of {len(self.request.seeds)} seeds"
        return f"running {methods} over {stream}, on {self.request.device}; results go to {folder}"


def _live(request: Request) -> Live:
    return Live([choice.label for choice in parse_methods(request.methods)], len(request.seeds))


def _made_ready(request: Request, live: Live, yes: bool) -> _Ready:
    data = load_dataset(
        request.dataset,
        split=request.split,
        limit=request.limit,
        frost=None if request.frost is None else Path(request.frost),
        image_size=request.image_size,
        device=request.device,
        download=download_question(yes),
        progress=live.images,
    )
    first = _stream(request, data, request.seeds[0])
    net = _network(_source(request), request.dataset, len(data.classes))
    return _Ready(request, data, net, parse_methods(request.methods), first)


def _stream(request: Request, data: Dataset, seed: int) -> Stream:
    return Stream(
        data,
        setting=request.setting,
        delta=request.delta,
        arrival=request.arrival,
        length=request.length,
        imbalance=request.imbalance,
        order=options.parse_order(request.order),
        severity=request.severity,
        visits=request.visits,
        batch_size=request.batch_size,
        seed=seed,
        device=request.device,
    )


def _source(request: Request) -> str:
    return request.source or source_for(request.dataset)


def _image_size(request: Request) -> int | None:
    """That which was asked for, or that of the source where the dataset leaves a choice."""
    asked = request.image_size
    if not entry_of(request.dataset)[0].takes_image_size:
        return asked  # which is refused there
    source = _source(request)
    trained = trained_size(source)
    if asked is not None and trained is not None and asked != trained:
        warn(
            f"{source} was trained on images of {trained}×{trained} pixels, and gets {asked}×"
            f"{asked}: leave out --image-size for those of its training"
        )
    return trained if asked is None else asked


def _network(source: str, dataset: str, classes: int) -> Classifier:
    """The source model, if it was trained on what the dataset holds."""
    check_trained_on(source, dataset)
    net = load_source(source)
    if net.head.out_features != classes:
        raise ValueError(
            f"{source} tells {net.head.out_features} classes apart, {dataset} has {classes}: "
            "give a --source that was trained on the same classes"
        )
    return net


def _what_is_kept(record: Record) -> str:
    folder = record.path.parent
    finished = "no method has come to its end"
    if record.walks:
        finished = f"what was finished is in {record.path}, see `rotta report {folder}`"
    kept = folder / CHECKPOINTS
    place = "its last checkpoints" if kept.is_dir() and any(kept.iterdir()) else "its beginning"
    return f"{finished}; `rotta run --resume {folder}` goes on with the rest from {place}"


def _show(record: Record, stream: Stream) -> None:
    """Print the table and where the files are."""
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
    if (visits := visit_errors(result)) is not None:
        say("the same by visit:")
        output.print(terminal_table(visits, output))
    for label, words in incident_words(result).items():
        say(f"{method_name(label)}: {words}")
    write_page([load_run(folder)], folder / "report.html")
    say(f"page to look at: {folder / 'report.html'}")
    say(f"all figures: {record.path}")
    say(f"picture of the stream: {folder / 'stream.png'}")


def _counted(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
