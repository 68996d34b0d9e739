"""A result is read back as it was written, or refused in one sentence."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent / "report"))

from made_results import guard_event, result, with_incidents

from rotta.results import Result


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = result({"source": 9.0, "rotta": 5.0}, seeds=(0, 1))
    made.save(tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    assert len(text.splitlines()) < 800  # a list of numbers is one line
    assert Result.load(tmp_path / "result.json").methods == made.methods


def test_what_befell_a_method_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = with_incidents(
        result({"rotta": 5.0}),
        "rotta",
        events=[guard_event(5), guard_event(9, "roll back")],
        skipped={"range": 3},
    )
    made.save(tmp_path / "result.json")
    assert Result.load(tmp_path / "result.json").methods == made.methods


def test_an_old_file_has_no_events(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    result({"rotta": 5.0}).save(file)
    stored = json.loads(file.read_text())
    walk = stored["methods"]["rotta"]["seeds"]["0"]
    assert (walk.pop("events"), walk.pop("skipped")) == ([], None)
    file.write_text(json.dumps(stored))
    read = Result.load(file).methods["rotta"].seeds["0"]
    assert (read.events, read.skipped) == ([], None)


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a word for a number": lambda r: r["methods"]["rotta"].update(average_error="x"),
    "no domains": lambda r: r["methods"]["rotta"].update(per_domain=None),
    "no time": lambda r: r["methods"]["rotta"].update(ms_per_batch=None),
    "configuration a list": lambda r: r.update(config=[]),
    "methods a list": lambda r: r.update(methods=[1]),
    "no seeds": lambda r: r["methods"]["rotta"].pop("seeds"),
    "short window": lambda r: r["methods"]["rotta"]["seeds"]["0"]["windows"]["error"].pop(),
    "short bank": lambda r: r["methods"]["rotta"]["seeds"]["0"]["bank"]["counts"].pop(),
    "ragged bank": lambda r: r["methods"]["rotta"]["seeds"]["0"]["bank"]["counts"][0].pop(),
    "events a word": lambda r: r["methods"]["rotta"]["seeds"]["0"].update(events="reset"),
    "half an event": lambda r: r["methods"]["rotta"]["seeds"]["0"].update(events=[{"batch": 3}]),
    "an action that is none": lambda r: r["methods"]["rotta"]["seeds"]["0"].update(
        events=[asdict(guard_event(3, action=7))]  # type: ignore[arg-type]
    ),
    "skipped a list": lambda r: r["methods"]["rotta"]["seeds"]["0"].update(skipped=[1]),
    "bank a number": lambda r: r["methods"]["rotta"]["seeds"]["0"].update(bank=7),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "result.json"
    result({"rotta": 5.0}).save(file)
    stored = json.loads(file.read_text())
    DAMAGES[damage](stored)
    file.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"is not the result of a run .* give a folder"):
        Result.load(file)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 50_000])
def test_what_is_no_result_at_all_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="is not the result of a run"):
        Result.load(file)
