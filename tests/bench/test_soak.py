"""However long a stream is, a method holds no more than at its beginning."""

import sys
from pathlib import Path

import pytest
from torch import Tensor

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import soak
from rotta.adapters import METHODS, Source
from rotta.adapters.choice import parse_methods
from soak import Soak

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LABELS = ["cotta:passes=2" if name == "cotta" else name for name in METHODS]


def soaked(label: str, batches: int, note_every: int) -> Soak:
    (choice,) = parse_methods(label)
    return soak.soak(soak.guarded(choice), batches, note_every)


@needs_proc
@pytest.mark.parametrize("label", ["rotta", "tent"])
def test_objects_do_not_pile_up(label: str) -> None:
    noted = soaked(label, batches=1000, note_every=250)
    assert noted.batches == [250, 500, 750, 1000]
    assert max(noted.tensors[2:]) - noted.tensors[1] < 20  # a snapshot, at most
    # an object for every tenth batch would be more; a guard's events are fewer
    assert noted.objects[-1] - noted.objects[1] < 50


class Hoards(Source):
    """A method that cannot part with anything."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._seen: list[Tensor] = []

    def infer(self, x: Tensor) -> Tensor:
        self._seen.append(x)
        return super().infer(x)


@needs_proc
def test_what_piles_up_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "source", Hoards)
    noted = soaked("source", batches=400, note_every=100)
    assert noted.tensors[-1] - noted.tensors[1] >= 200


def test_growth_and_slope_beside_the_obvious() -> None:
    batches = list(range(1000, 101_000, 1000))
    level, rising = [300_000] * 100, [300_000 + 200 * i for i in range(100)]
    assert Soak(batches, level).slope == pytest.approx(0)
    assert Soak(batches, level).flat
    assert Soak(batches, rising).slope == pytest.approx(200)
    assert Soak(batches, rising).growth_kib == pytest.approx(50 * 200)
    assert not Soak(batches, rising).flat
    settling = [200_000] * 20 + [300_000] * 80  # before the second quarter
    assert Soak(batches, settling).flat


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_memory_is_flat_over_20_000_batches(label: str) -> None:
    (choice,) = parse_methods(label)
    noted = soak.in_its_own_process(soak.guarded(choice), 20_000)
    # guards take snapshots and let go of them, so that single counts differ
    assert max(noted.tensors[10:]) <= max(noted.tensors[:10]) + 1
    assert noted.flat, noted.rss_kib
