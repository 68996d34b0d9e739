"""The script for a GPU, tried on a CPU: what it would lose there is lost time."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import on_cuda
from rotta.bench.benchmark import Benchmark, Settings


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = on_cuda.Network(10, 9e9, "digits-c", "digits")
    monkeypatch.setattr(on_cuda, "NETWORKS", {"wrn-10-1": small})
    monkeypatch.setattr(on_cuda, "SECONDS", 0.01)


def test_figures_stand_beside_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["on_cuda", "--out", str(tmp_path), "--steps=speed,guard", "--device=cpu"]
    )
    with pytest.raises(SystemExit):
        on_cuda.main()
    told = capsys.readouterr().out
    record = json.loads((tmp_path / "bench-wrn-10-1.json").read_text())
    assert f"{record['rotta_over_floor']:.3f} ≤ 1.15" in told
    assert f"{record['rotta_over_floor_memory']:.3f} ≤ 1.2" in told
    assert "≤ 9e+09  ms   met" in told
    assert "0.000 ≤ 0.3" in told
    assert (tmp_path / "guard-wrn-10-1.json").exists()


def test_a_step_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Settings) -> Benchmark:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(on_cuda, "benchmark", fails)
    monkeypatch.setattr(on_cuda, "CUDA_TESTS", ("nothing.py",))
    monkeypatch.setattr(
        sys, "argv", ["on_cuda", "--out", str(tmp_path), "--steps=speed,tests", "--device=cpu"]
    )
    with pytest.raises(SystemExit):
        on_cuda.main()
    told = capsys.readouterr().out
    assert "speed: RuntimeError: out of memory" in told
    assert "MISSED" in told.splitlines()[-1]


def test_tests_that_crash_are_not_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = SimpleNamespace(returncode=-signal.SIGSEGV)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    (figure,) = on_cuda.tests(tmp_path, "cpu")
    assert not figure.is_met
