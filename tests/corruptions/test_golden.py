"""What the corruptions made when this file was written: nobody changes a pixel unawares.

``golden.json`` holds the mean and spread of the levels of two digits under every corruption. After
an intended change, raise ``GENERATION``, which names the cache, and write the file anew:
``python tests/corruptions/test_golden.py``.
"""

import json
from pathlib import Path

import pytest
import torch

from rotta.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from rotta.corruptions.textures import _procedural
from rotta.datasets import load_dataset
from rotta.datasets.generated import GENERATION

FILE = Path(__file__).with_name("golden.json")


def measured(name: str, severity: int) -> list[float]:
    images = load_dataset("digits", limit=2).domain("clean").images(torch.arange(2).numpy())
    y = corrupt(images.float() / 255, name, severity, seed=0, index=[0, 1], textures=_procedural())
    levels = (y * 255).round().double()
    return [round(levels.mean().item(), 3), round(levels.std().item(), 3)]


@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_pixels_are_those_of_their_generation(name: str) -> None:
    golden = json.loads(FILE.read_text())
    assert golden["generation"] == GENERATION
    for severity in SEVERITIES:
        # a level here and there may differ between processors
        assert measured(name, severity) == pytest.approx(golden[name][severity - 1], abs=0.01)


if __name__ == "__main__":
    content: dict[str, object] = {"generation": GENERATION}
    for name in CORRUPTIONS:
        content[name] = [measured(name, severity) for severity in SEVERITIES]
    FILE.write_text(json.dumps(content, indent=1) + "\n")
