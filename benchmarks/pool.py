"""A pool of streams against one model per stream: python benchmarks/pool.py

    python benchmarks/pool.py --model digits --device cpu --streams 200 --json pool.json

Every stream sends one image at a time. Frozen streams are only predicted, others learn too, with
their updates spread evenly over time. Per image, medians of rounds that take turns:

separate  a RoTTA for each stream, called with one image
pool      a StreamPool, called with one image each of --gather streams
batched   a single RoTTA, called with 64 images of its one stream: as good as it gets

Batches of one image take a quarter more or less time from one process to the next, on the same
machine: --runs measures in several, one after the other, and has the medians of all.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from rotta import RoTTA, Stream, load_dataset
from rotta.bench.timing import timer_for
from rotta.bench.workload import Workload, make_workload
from rotta.cli.allocator import keep_freed_memory
from rotta.nn.surgery import BATCH_NORMS, layers_of
from rotta.pool import Request, StreamPool
from rotta.results import provenance

BATCH = 64
_WARM_UP = 4  # rounds
_ONE_MORE = "one more"  # stream, for what is allocated with the first
_MOST_AT_ONCE = 256  # requests
_BEGIN_TOGETHER = 16  # streams, so that thousands begin soon

Milliseconds = dict[str, list[float]]
"""Per image, round by round, by who took them."""
Result = dict[str, Any]
"""What is written as JSON."""


@dataclass(frozen=True)
class Crowd:
    """The same streams, in a pool and separately; and one more stream for itself."""

    pool: StreamPool
    models: dict[str, RoTTA]
    single: RoTTA
    images: Tensor
    bytes_per_stream: dict[str, int]
    """What the pool takes, what it may take, and what a model for itself takes."""

    def names(self) -> list[str]:
        """Of the streams."""
        return [name for name in self.pool.names() if name != _ONE_MORE]


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="digits", help="an architecture or a source")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument(
        "--gather", type=int, help=f"requests in one call; of all streams, {_MOST_AT_ONCE} at most"
    )
    parser.add_argument(
        "--seen",
        type=int,
        default=2 * BATCH,
        help="images that every stream has seen before, at least; with few, banks are not full",
    )
    parser.add_argument("--rounds", type=int, default=20, help="of --gather images each")
    parser.add_argument(
        "--learn-every", type=int, default=1, help="calls of the pool between two that learn"
    )
    parser.add_argument(
        "--no-separate", action="store_true", help="leave out a model per stream: thousands"
    )
    parser.add_argument("--runs", type=int, default=1, help="processes that measure")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.gather = arguments.gather or min(arguments.streams, _MOST_AT_ONCE)
    if arguments.runs > 1:
        result = of_all([in_a_process(sys.argv[1:]) for _ in range(arguments.runs)])
    else:
        keep_freed_memory()
        result = measured(arguments)
    for what, times in result["milliseconds per image"].items():
        show(what, times)
    print(f"banks hold, images: {result['bank']}, bytes per stream: {result['bytes per stream']}")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def in_a_process(options: list[str]) -> Result:
    """What one process measures; it prints as usual."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [sys.executable, __file__, *options, "--runs", "1", "--json", str(path)]
        subprocess.run(command, check=True)
        result: Result = json.loads(path.read_text())
    return result


def of_all(results: list[Result]) -> Result:
    """The last one, with the medians of all, and each run's times."""
    runs = [result["milliseconds per image"] for result in results]
    together = {
        what: {who: statistics.median(run[what][who] for run in runs) for who in times}
        for what, times in runs[0].items()
    }
    print(f"medians of {len(runs)} runs:")
    return results[-1] | {"milliseconds per image": together, "runs": runs}


def measured(arguments: argparse.Namespace) -> Result:
    """All that goes into the file."""
    device = torch.device(arguments.device)
    load_before = os.getloadavg()[0]
    crowd = gathered(
        arguments.model,
        device,
        arguments.streams,
        seen=arguments.seen,
        separate=not arguments.no_separate,
    )
    size = arguments.gather, arguments.rounds, arguments.learn_every
    learning = measure(crowd, device, *size, frozen=False)
    for name in crowd.names():
        crowd.pool.freeze(name)
    frozen = measure(crowd, device, *size, frozen=True)
    return {
        "model": arguments.model,
        "streams": arguments.streams,
        "gather": arguments.gather,
        "learn every": arguments.learn_every,
        "threads": torch.get_num_threads(),
        "load average before": load_before,
        "milliseconds per image": {
            "frozen": medians(frozen),
            "with updates": medians(learning),
        },
        "bank": {"pool": mean_bank(crowd), "batched": crowd.single.bank.size()},
        "bytes per stream": crowd.bytes_per_stream,
        "provenance": provenance(arguments.device, {"images": "digits-c or synthetic"}),
    }


def gathered(model: str, device: torch.device, streams: int, *, seen: int, separate: bool) -> Crowd:
    """Streams whose banks are filled, each at another distance from its next update."""
    workload = make_workload(model, device, largest_batch=16 * BATCH)
    images = _digits(device) if model == "digits" else workload.images
    names = [f"stream-{i}" for i in range(streams)]
    first = _first_images(images, names, seen)
    single = RoTTA(workload.net, workload.num_classes)
    single(images[: 2 * BATCH])  # what is allocated once is allocated now
    pool = StreamPool(workload.net, workload.num_classes, resident=streams + 1)
    pool([Request(_ONE_MORE, images[: 2 * BATCH])])
    before = _held_bytes(device)
    beginnings = iter([Request(name, own) for name, own in first.items()])
    while together := list(islice(beginnings, _BEGIN_TOGETHER)):
        pool(together)
    between = _held_bytes(device)
    own = names if separate else []
    models = {name: RoTTA(workload.net, workload.num_classes) for name in own}
    for name, model_of_its_own in models.items():
        model_of_its_own(first[name])
    taken = {
        "pool": (between - before) // streams,
        "allowed": _allowed_bytes(workload, images),
    }
    if separate:
        taken["separate"] = (_held_bytes(device) - between) // streams
    return Crowd(pool, models, single, images, taken)


def _first_images(images: Tensor, names: list[str], seen: int) -> dict[str, Tensor]:
    """For each stream another number of them, so that updates will be spread evenly."""
    source = cycle(torch.split(images, 1))
    return {name: torch.cat(list(islice(source, seen + i % BATCH))) for i, name in enumerate(names)}


def _digits(device: torch.device) -> Tensor:
    """Some hundred corrupted digits in random order."""
    stream = Stream(load_dataset("digits-c"), setting="continual", batch_size=8 * BATCH, seed=0)
    return next(iter(stream)).x.to(device)


def _held_bytes(device: torch.device) -> int:
    """Memory of all tensors that are in use on a device."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    gc.collect()
    tensors = (each for each in gc.get_objects() if issubclass(type(each), Tensor))
    # packed weights tell nobody where they lie; streams have none
    storages = (tensor.untyped_storage() for tensor in tensors if tensor.layout is torch.strided)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _allowed_bytes(workload: Workload, images: Tensor) -> int:
    """3 × (γ, β, statistics and Adam's moments) + 1.1 × the bank of a stream."""
    norms = layers_of(workload.net, *BATCH_NORMS)
    channels = sum(norm.get_buffer("running_mean").numel() for norm in norms)
    numbers = 4 * (2 + 2 + 4) * channels
    return int(3 * numbers + 1.1 * BATCH * images[0].nbytes)


def measure(
    crowd: Crowd,
    device: torch.device,
    gather: int,
    rounds: int,
    learn_every: int,
    *,
    frozen: bool,
) -> Milliseconds:
    """Let all three take turns; a round of the pool is as many calls as lead to one that learns."""
    timer, images = timer_for(device), torch.split(crowd.images, 1)
    source, names = cycle(images), cycle(crowd.names())
    batches = cycle(torch.split(crowd.images, BATCH))
    single = crowd.single.predict if frozen else crowd.single
    times: Milliseconds = {"separate": []} if crowd.models else {}
    times |= {"pool": [], "batched": []}

    def one_by_one(calls: list[list[Request]]) -> None:
        for request in chain.from_iterable(calls):
            model = crowd.models[request.stream]
            (model.predict if frozen else model)(request.images)

    def pooled(calls: list[list[Request]]) -> None:
        for requests in calls:
            crowd.pool.predict(requests)
        crowd.pool.learn()

    for _ in range(_WARM_UP + rounds):
        calls = [
            [Request(next(names), next(source)) for _ in range(gather)] for _ in range(learn_every)
        ]
        count = gather * learn_every
        if crowd.models:
            times["separate"].append(timer(partial(one_by_one, calls)) / count)
        times["pool"].append(timer(partial(pooled, calls)) / count)
        times["batched"].append(timer(partial(single, next(batches))) / BATCH)
    return {who: taken[-rounds:] for who, taken in times.items()}


def medians(times: Milliseconds) -> dict[str, float]:
    """Of each, in milliseconds."""
    return {who: round(statistics.median(taken), 4) for who, taken in times.items()}


def show(what: str, times: dict[str, float]) -> None:
    """A line for a table."""
    print(f"{what}: {', '.join(f'{who} {taken:.3f} ms' for who, taken in times.items())}")
    if "separate" in times:
        faster = times["separate"] / times["pool"]
        print(f"  the pool is {faster:.2f} times as fast as separate models")
    share = times["batched"] / times["pool"]
    print(f"  the pool has {share:.0%} of the throughput of one stream in batches of {BATCH}")


def mean_bank(crowd: Crowd) -> float:
    """How many samples a stream's bank holds, in the mean."""
    return statistics.mean(sum(crowd.pool.info(name).bank_by_class) for name in crowd.names())


if __name__ == "__main__":
    main()
