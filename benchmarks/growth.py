"""How RoTTA's cost grows with classes, places in the bank and pixels: python benchmarks/growth.py

    python benchmarks/growth.py --device cpu --json growth.json --plot growth.png

Times, warmed up, inserting 64 samples into a full bank, and a whole call on a batch of 64:
predict, insert, update on the bank. Classes and places with a network of three convolutions on
32×32 pixels; pixels with ResNet-18. Weights and images are random: no cost depends on them.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rotta import RoTTA
from rotta.cli.allocator import keep_freed_memory
from rotta.memory.bank import Bank
from rotta.memory.cstu import CSTU
from rotta.models import build
from rotta.results import provenance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH = 64
CLASSES = (10, 100, 1_000, 10_000)
PLACES = (64, 256, 1_024, 4_096)
SIDES = (32, 64, 128, 224)
CALL, INSERT = "predict and update", "of which inserting into the bank"
COLOURS = {CALL: "#1f5fa8", INSERT: "#d1701f"}

_SECONDS = 3.0  # for one point, unless two rounds take longer
_ROUNDS = 2, 500  # at least, at most
_WARM_UP = {"cpu": 1, "cuda": 6}  # CUDA graphs are recorded meanwhile

Points = dict[int, float]
"""Milliseconds by what grows."""


@dataclass(frozen=True)
class Panel:
    """What one quantity costs."""

    title: str
    curves: Mapping[str, Points]


def main() -> None:
    """Measure, print a table, and write JSON and a plot if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    keep_freed_memory()

    panels = measure(torch.device(arguments.device))
    for panel in panels:
        for name, points in panel.curves.items():
            print(f"{name}, by {panel.title}")
            for quantity, milliseconds in points.items():
                print(f"{quantity:12,} {milliseconds:12.3f} ms")
    if arguments.json:
        result = {
            "batch": BATCH,
            "milliseconds": {panel.title: panel.curves for panel in panels},
            "provenance": provenance(arguments.device, {"images": "synthetic"}),
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    if arguments.plot:
        draw(panels, arguments.plot)


def measure(device: torch.device) -> list[Panel]:
    """The three panels, in a few minutes on two cores."""

    def insert(places: int, classes: int) -> float:
        return _median_ms(_inserting(places, classes, device), device)

    def call(net: nn.Module, classes: int, places: int = BATCH, side: int = 32) -> float:
        return _median_ms(_calling(net, classes, places, side, device), device)

    return [
        Panel(
            "classes",
            {
                CALL: {classes: call(_small(classes), classes) for classes in CLASSES},
                INSERT: {classes: insert(BATCH, classes) for classes in CLASSES},
            },
        ),
        Panel(
            "places in the bank",
            {
                CALL: {places: call(_small(10), 10, places=places) for places in PLACES},
                INSERT: {places: insert(places, 10) for places in PLACES},
            },
        ),
        Panel(
            "pixels of an image",
            {CALL: {side**2: call(build("resnet-18", 10), 10, side=side) for side in SIDES}},
        ),
    ]


def _inserting(places: int, classes: int, device: torch.device) -> Callable[[], None]:
    bank = CSTU(places, classes).to(device)
    x = _images(32, device)
    _fill(bank, x, classes)
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (16, BATCH), generator=draws).to(device)
    entropies = torch.rand(16, BATCH, generator=draws).to(device)
    samples = itertools.cycle(zip(labels, entropies, strict=True))
    return lambda: bank.insert(x, *next(samples))


def _calling(
    net: nn.Module, classes: int, places: int, side: int, device: torch.device
) -> Callable[[], Tensor]:
    net = net.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    method = RoTTA(net, classes, capacity=places, update_every=BATCH)
    x = _images(side, device)
    _fill(method.bank, x, classes)
    return lambda: method(x)


def _fill(bank: Bank, x: Tensor, classes: int) -> None:
    """Full, and as balanced as can be: every update then goes over all places."""
    for start in range(0, bank.capacity, len(x)):
        label = torch.arange(start, start + len(x), device=x.device) % classes
        bank.insert(x, label, torch.zeros_like(label, dtype=x.dtype))


def _small(classes: int) -> nn.Module:
    """So little arithmetic that the rest shows, and little memory for a large bank."""
    widths = (3, 16, 32, 64)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def _images(side: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(BATCH, 3, side, side, generator=generator).to(device)


def _median_ms(step: Callable[[], object], device: torch.device) -> float:
    for _ in range(_WARM_UP[device.type]):
        step()
    times: list[float] = []
    least, most = _ROUNDS
    while len(times) < least or (sum(times) < _SECONDS and len(times) < most):
        _wait(device)
        start = time.perf_counter()
        step()
        _wait(device)
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def draw(panels: list[Panel], path: Path) -> None:
    """A panel for each, with logarithmic axes and a line for what grows in proportion."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        _draw_panel(axes, panel)
    figure.axes[0].set_ylabel("milliseconds for 64 samples")
    figure.axes[0].yaxis.set_major_formatter("{x:,g}")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    for name, points in panel.curves.items():
        line = {"color": COLOURS[name], "linewidth": 2, "markersize": 5}
        axes.loglog(list(points), list(points.values()), "o-", label=name, **line)
        for quantity, milliseconds in points.items():
            _write_ms(axes, quantity, milliseconds, COLOURS[name])
    points = panel.curves[CALL]
    first = next(iter(points))
    proportional = [points[first] * quantity / first for quantity in points]
    axes.loglog(list(points), proportional, "--", color="#999999", label="in proportion", zorder=1)
    axes.set_xticks(list(points), [f"{quantity:,}" for quantity in points])
    axes.minorticks_off()
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel(panel.title)
    axes.grid(axis="y", color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)


def _write_ms(axes: "Axes", quantity: int, milliseconds: float, colour: str) -> None:
    from matplotlib.patheffects import withStroke

    axes.annotate(
        f"{milliseconds:,.0f}" if milliseconds >= 10 else f"{milliseconds:.1f}",
        (quantity, milliseconds),
        xytext=(4, -14),  # under a rising curve
        textcoords="offset points",
        ha="center",
        fontsize=9,
        color=colour,
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )


if __name__ == "__main__":
    main()
