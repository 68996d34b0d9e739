"""What a source model scores on our corruptions, beside the original generator's images.

    python benchmarks/source_errors.py cifar10-wrn28-10 --device cuda --severities 1,2,3,4,5

Prints the error on clean images and on each corruption, with the difference from
``source_rows.json`` at severity 5, and the average at each severity.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rotta.corruptions import corrupt, load_textures
from rotta.datasets import load_dataset
from rotta.models import SOURCES, load_source
from rotta.results import provenance

HERE = Path(__file__).parent


def main() -> None:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("source", choices=sorted(SOURCES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--severities", default="5")
    parser.add_argument("--limit", type=int, help="first so many images; as in source_rows.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    golden = json.loads((HERE / "source_rows.json").read_text())
    row = golden["rows"].get(arguments.source, {"images": None, "errors": []})
    limit = arguments.limit or row["images"]
    source = SOURCES[arguments.source]
    dataset = load_dataset(source.dataset)
    images = dataset.domain("clean")
    everything = torch.arange(len(images.labels))
    x = images.images(everything.numpy()).to(arguments.device).float() / 255
    y = torch.from_numpy(images.labels).to(arguments.device)
    net = load_source(arguments.source).to(arguments.device)
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    clean = _error(net, x, y)
    print(f"{arguments.source}: clean error {clean:.2f} %, stated {source.clean_error:.2f} %")
    x, y = x[:limit], y[:limit]
    index = torch.arange(len(x), device=x.device)
    errors: dict[int, dict[str, float]] = {}
    for severity in (int(s) for s in arguments.severities.split(",")):
        start = time.perf_counter()
        errors[severity] = {
            name: _error(net, corrupt(x, name, severity, seed=arguments.seed, index=index), y)
            for name in golden["order"]
        }
        took = time.perf_counter() - start
        average = sum(errors[severity].values()) / len(errors[severity])
        print(f"severity {severity}: average {average:.2f} % over {len(x):,} images ({took:.0f} s)")
    record: dict[str, Any] = {
        "source": arguments.source,
        "images": len(x),
        "seed": arguments.seed,
        "clean_error": clean,
        "errors": errors,
        "frost": load_textures().origin,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "provenance": provenance(arguments.device, dataset.provenance),
    }
    if row["errors"] and 5 in errors:
        record["difference"] = _compare(
            errors[5], dict(zip(golden["order"], row["errors"], strict=True))
        )
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


def _compare(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    difference = {name: error - theirs[name] for name, error in ours.items()}
    for name, error in ours.items():
        print(f"  {name:20} {error:6.2f}   original {theirs[name]:5.1f}   {difference[name]:+.2f}")
    mean = sum(difference.values()) / len(difference)
    worst = max(difference.values(), key=abs)
    print(f"  average difference {mean:+.2f}, largest {worst:+.2f}")
    return difference | {"average": mean}


@torch.no_grad()
def _error(net: nn.Module, x: Tensor, y: Tensor) -> float:
    wrong = torch.zeros((), dtype=torch.int64, device=x.device)
    for xs, ys in zip(torch.split(x, 500), torch.split(y, 500), strict=True):
        predicted = net(xs.contiguous(memory_format=torch.channels_last)).argmax(1)
        wrong += (predicted != ys).sum()
    return 100.0 * int(wrong) / len(y)


if __name__ == "__main__":
    main()
