"""Whether a guard brings a poisoned model back: python benchmarks/poison.py

    python benchmarks/poison.py --methods tent,rotta --json poison.json

A guarded method walks along corrupted digits. After some batches its γ and β are scaled, or its
statistics are set to NaN, or a thousand batches of noise come in between; then the stream goes on.
Its error over the batches from the 51st on is compared with that of the same method, unharmed, on
the same batches.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import rotta
from rotta.adapters.choice import MethodChoice, parse_methods
from rotta.adapters.learnt import Learnt
from rotta.cli.console import progress_bar
from rotta.results import as_json, provenance

BEFORE, WITHIN, LOOKED_AT = 200, 50, 200
"""Batches before the poison, to recover in, and over which the error is taken then."""
SCALE, NOISE = 10.0, 1_000


@torch.no_grad()
def weights_scaled(model: rotta.Adapter) -> None:
    """γ and β, or all that it learns, times ten."""
    for weight in Learnt(model).parameters()[0]:
        weight.mul_(SCALE)


@torch.no_grad()
def statistics_not_finite(model: rotta.Adapter) -> None:
    """All statistics that it tracks; its parameters where it tracks none."""
    for tensor in Learnt(model).statistics()[0] or Learnt(model).parameters()[0]:
        tensor.fill_(torch.nan)


def batches_of_noise(model: rotta.Adapter) -> None:
    """A thousand of them, every pixel drawn alike."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(NOISE):
        model(torch.rand(64, 3, 32, 32, generator=generator))


POISONS: tuple[Callable[[rotta.Adapter], None], ...] = (
    weights_scaled,
    statistics_not_finite,
    batches_of_noise,
)


def main() -> None:
    """Poison each method in each way, print a line for each, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--methods", default="pl,tent,note,rotta,rotta-lasting", help="as `rotta run` takes them"
    )
    parser.add_argument("--setting", default="ptta")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    net, data = rotta.load_source("digits"), rotta.load_dataset("digits-c")
    stream = rotta.Stream(data, setting=arguments.setting, seed=0)

    found: dict[str, dict[str, Any]] = {}
    for choice in parse_methods(arguments.methods):
        healthy = _walk(_guarded(choice, net), stream, None)
        for poison in POISONS:
            model = _guarded(choice, net)
            error = _walk(model, stream, poison)
            name = f"{choice.label}, {poison.__name__.replace('_', ' ')}"
            found[name] = {"error": error, "healthy": healthy, "events": model.events}
            acted = ", ".join(f"{event['action']} at {event['batch']}" for event in model.events)
            print(
                f"{name}: {error:.1f} % against {healthy:.1f} % ({error - healthy:+.1f}); "
                f"{acted or 'no alarm'}",
                flush=True,
            )
    if arguments.json:
        settled = {"before": BEFORE, "within": WITHIN, "looked at": LOOKED_AT, "noise": NOISE}
        result = {"found": found, "config": {"setting": arguments.setting, **settled}}
        arguments.json.write_text(
            as_json({**result, "provenance": provenance("cpu", data.provenance)})
        )


def _guarded(choice: MethodChoice, net: nn.Module) -> rotta.Adapter:
    return replace(choice, options={"guard": True, **choice.options}).build(net, 10)


def _walk(
    model: rotta.Adapter, stream: rotta.Stream, poison: Callable[[rotta.Adapter], None] | None
) -> float:
    """The error over the batches that are looked at, in percent."""
    wrong: list[Tensor] = []
    with progress_bar(type(model).__name__) as progress:
        for number, batch in enumerate(_first(stream, BEFORE + WITHIN + LOOKED_AT)):
            if number == BEFORE and poison is not None:
                poison(model)
            answer = model(batch.x).argmax(dim=1)
            if number >= BEFORE + WITHIN:
                wrong.append((answer != batch.y).float())
            progress(number + 1, BEFORE + WITHIN + LOOKED_AT)
    return 100 * torch.cat(wrong).mean().item()


def _first(stream: rotta.Stream, batches: int) -> Iterator[rotta.Batch]:
    return itertools.islice(iter(stream), batches)


if __name__ == "__main__":
    main()
