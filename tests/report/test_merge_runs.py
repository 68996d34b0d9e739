"""Runs that were made side by side become one result, if they belong together."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from made_results import result

from merge_runs import merged


def test_walks_are_joined_in_the_order_of_the_tables() -> None:
    runs = [
        result({"rotta": 9.0}, seeds=(1,), options={"rotta": {"nu": 0.001}}),
        result({"bn": 7.0}, options={"bn": {}}),
        result({"rotta": 5.0}),
    ]
    joined = merged(runs)
    assert list(joined.methods) == ["bn", "rotta"]
    assert list(joined.methods["rotta"].seeds) == ["0", "1"]
    averages = [walk.average_error for walk in joined.methods["rotta"].seeds.values()]
    assert joined.methods["rotta"].average_error == pytest.approx(sum(averages) / 2)
    assert joined.config["methods"] == ["bn", "rotta"]
    assert joined.config["options"] == {"rotta": {"nu": 0.001}, "bn": {}}
    assert joined.config["seeds"] == [0, 1]
    assert "side by side" in joined.provenance["note"]


def test_runs_that_differ_or_repeat_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in more"):
        merged([result({"bn": 1.0}), result({"rotta": 1.0}, delta=7)])
    with pytest.raises(ValueError, match="bn, seed 0, is in two"):
        merged([result({"bn": 1.0}), result({"bn": 2.0})])
