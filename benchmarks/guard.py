"""What a guard gives and what it costs: python benchmarks/guard.py

    python benchmarks/guard.py --dataset cifar100-c --source cifar100-resnext29-augmix \
        --methods tent,rotta --setting continual --device cuda --json guard.json

Each method walks along one stream twice, with a guard and without; the two take turns, some batches
each, so that a slow moment of the machine hits both alike. Compared are their errors, and their
times: the median, over the turns, of one divided by the other. On a stream on which the method does
well, everything that the guard does is a false alarm.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

import rotta
from rotta.adapters.choice import MethodChoice, parse_methods
from rotta.bench.timing import timer_for
from rotta.guard.guard import LOOK_EVERY
from rotta.results import as_json, provenance
from rotta.streams import Batch

TURN = LOOK_EVERY  # batches: every turn has one look
_WARM_UP = 2  # turns, in which kernels are chosen and graphs recorded


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


def main() -> None:
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
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
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
        found[choice.label] = compared(choice, arguments.source, classes, stream, device)
        print(_line(choice.label, found[choice.label]), flush=True)
        if arguments.json:
            config = {k: v for k, v in vars(arguments).items() if k not in ("json", "methods")}
            result = {"found": found, "config": config, "batches": len(stream)}
            origin = provenance(arguments.device, data.provenance)
            arguments.json.write_text(as_json({**result, "provenance": origin}))


def compared(
    choice: MethodChoice, source: str, classes: int, stream: rotta.Stream, device: torch.device
) -> dict[str, Any]:
    """A method with a guard and without."""
    net = rotta.load_source(source)
    net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain, guarded = (
        Walker(
            replace(choice, options={**choice.options, "guard": guard}).build(net, classes),
            *torch.zeros(2, len(stream.domains), device=device),
        )
        for guard in (False, True)
    )
    timer = timer_for(device)
    for number, turn in enumerate(_turns(stream)):
        for walker in (plain, guarded) if number % 2 else (guarded, plain):
            walker.milliseconds.append(timer(partial(walker.walk, turn)))
    pairs = zip(guarded.milliseconds, plain.milliseconds, strict=True)
    ratios = [with_it / without for with_it, without in islice(pairs, _WARM_UP, None)]
    return {
        "error": {"without": plain.error, "guarded": guarded.error},
        "time": median(ratios) if ratios else None,
        "turns": len(ratios),
        "events": guarded.model.events,
    }


def _turns(stream: rotta.Stream) -> Iterator[list[Batch]]:
    batches = iter(stream)
    while turn := list(islice(batches, TURN)):
        yield turn


def _line(label: str, found: dict[str, Any]) -> str:
    error, time = found["error"], found["time"]
    took = "" if time is None else f", {time:.3f} of the time"
    return (
        f"{label}: {error['without']:.2f} % without, {error['guarded']:.2f} % with a guard"
        f"{took}, {len(found['events'])} events"
    )


if __name__ == "__main__":
    main()
