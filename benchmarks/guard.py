"""What a guard gives and what it costs: python benchmarks/guard.py

    python benchmarks/guard.py --dataset cifar100-c --source cifar100-resnext29-augmix \
        --methods tent,rotta --setting continual --device cuda --json guard.json

Each method walks along one stream twice, with a guard and without; the two take turns, some batches
each, so that a slow moment of the machine hits both alike. Compared are their errors, and their
times: the median, over the turns, of one divided by the other. Two models that are the same differ
by a percent or two on a GPU, depending on where their tensors lie: with --pairs there are several
of each, and what is told is the mean over the pairs, and errors and events of the first. On a
stream on which the method does well, everything that the guard does is a false alarm.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor, nn

import rotta
from rotta.adapters.choice import MethodChoice, parse_methods
from rotta.bench.timing import Timer, timer_for
from rotta.guard.guard import LOOK_EVERY
from rotta.results import as_json, provenance
from rotta.streams import Batch

TURN = LOOK_EVERY  # batches: every turn has one look
_WARM_UP = 5  # turns, in which kernels are chosen and graphs recorded


@dataclass
class Walker:
    """One of the two, and what has come of it."""

    model: rotta.Adapter
    wrong: Tensor
    """Per domain, as ``seen``."""
    seen: Tensor
    milliseconds: list[float] = field(default_factory=list)

    def walk(self, batches: list[Batch]) -> None:
        """Predict and learn; nothing waits for the device."""
        for batch in batches:
            bad = (self.model(batch.x).argmax(dim=1) != batch.y).to(self.wrong.dtype)
            self.wrong.index_add_(0, batch.domain, bad)
            self.seen.index_add_(0, batch.domain, torch.ones_like(bad))

    @property
    def error(self) -> float:
        """Mean over the domains, in %."""
        return float((100 * self.wrong / self.seen).mean())


def main(argv: Sequence[str] | None = None) -> None:
    """Walk, print a line for each method, write JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="digits-c")
    parser.add_argument("--source", default="digits")
    parser.add_argument("--methods", default="tent,rotta", help="as `rotta run` takes them")
    parser.add_argument("--setting", default="continual")
    parser.add_argument("--limit", type=int, help="images per domain")
    parser.add_argument("--visits", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=1, help="with and without, to time them")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if arguments.pairs < 1:
        parser.error("--pairs is at least 1")
    device = torch.device(arguments.device)
    data = rotta.load_dataset(arguments.dataset, limit=arguments.limit, device=arguments.device)
    stream = rotta.Stream(
        data,
        setting=arguments.setting,
        seed=arguments.seed,
        visits=arguments.visits,
        device=device,
    )
    found: dict[str, dict[str, Any]] = {}
    for choice in parse_methods(arguments.methods):
        classes = len(data.classes)
        net = rotta.load_source(arguments.source)
        net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        pairs = [_pair(choice, net, classes, stream, device) for _ in range(arguments.pairs)]
        found[choice.label] = compared(pairs, stream, timer_for(device))
        print(_line(choice.label, found[choice.label]), flush=True)
        if arguments.json:
            config = {k: v for k, v in vars(arguments).items() if k not in ("json", "methods")}
            result = {"found": found, "config": config, "batches": len(stream)}
            origin = provenance(arguments.device, data.provenance)
            arguments.json.write_text(as_json({**result, "provenance": origin}))


def compared(
    pairs: list[tuple[Walker, Walker]], stream: rotta.Stream, timer: Timer
) -> dict[str, Any]:
    """Models of a method without a guard, and with one."""
    for number, turn in enumerate(_turns(stream)):
        for pair in pairs:
            for walker in pair if number % 2 else reversed(pair):
                walker.milliseconds.append(timer(partial(walker.walk, turn)))
    ratios = [_ratios(*pair) for pair in pairs]
    each_pair = [median(of_one) for of_one in ratios if of_one]
    plain, guarded = pairs[0]
    return {
        "error": {"without": plain.error, "guarded": guarded.error},
        "time": mean(each_pair) if each_pair else None,
        "time of each pair": each_pair,
        "turns": len(ratios[0]),
        "events": guarded.model.events,
    }


def _pair(
    choice: MethodChoice, net: nn.Module, classes: int, stream: rotta.Stream, device: torch.device
) -> tuple[Walker, Walker]:
    plain, guarded = (
        Walker(
            replace(choice, options={**choice.options, "guard": guard}).build(net, classes),
            *torch.zeros(2, len(stream.domains), device=device),
        )
        for guard in (False, True)
    )
    return plain, guarded


def _ratios(plain: Walker, guarded: Walker) -> list[float]:
    times = zip(guarded.milliseconds, plain.milliseconds, strict=True)
    return [with_it / without for with_it, without in islice(times, _WARM_UP, None)]


def _turns(stream: rotta.Stream) -> Iterator[list[Batch]]:
    batches = iter(stream)
    while turn := list(islice(batches, TURN)):
        yield turn


def _line(label: str, found: dict[str, Any]) -> str:
    error, time = found["error"], found["time"]
    each = ", ".join(f"{one:.3f}" for one in found["time of each pair"])
    took = "" if time is None else f", {time:.3f} of the time ({each})"
    return (
        f"{label}: {error['without']:.2f} % without, {error['guarded']:.2f} % with a guard"
        f"{took}, {len(found['events'])} events"
    )


if __name__ == "__main__":
    main()
