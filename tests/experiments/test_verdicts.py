"""What experiments say about their results."""

from dataclasses import replace

import pytest

from rotta.experiments.experiment import Training, Variant
from rotta.experiments.measured import like_for_like, mean_of, method_result, precision_remark
from rotta.experiments.tasks import Walk
from rotta.experiments.verdicts import (
    agreement,
    all_worse,
    best_is_default,
    trends,
    where_best,
)
from rotta.report.beside import Entry
from rotta.results import MethodResult, Result, SeedResult, Windows


def scored(*errors: float) -> MethodResult:
    windows = Windows([1], [0.0], [0.0], [0.0])
    seeds = {
        s: SeedResult(error, {"fog": error}, {}, 1.0, windows) for s, error in enumerate(errors)
    }
    return MethodResult.over(seeds)


def block(**methods: MethodResult) -> Result:
    labels = {name.replace("__", ":").replace("_is_", "="): m for name, m in methods.items()}
    return Result(labels, {})


def test_float32_goes_before_float16() -> None:
    both = {"v": block(rotta=scored(26.0), rotta__precision_is_float16=scored(27.0))}
    found = method_result(both, "v", "rotta")
    assert found is not None
    assert found.average_error == 26.0
    assert method_result({"v": block(bn=scored(1.0))}, "v", "rotta") is None


def test_a_label_is_found_however_it_is_written() -> None:
    blocks = {"v": Result({"rotta:alpha=0.1": scored(30.0)}, {})}
    assert method_result(blocks, "v", "rotta:alpha=1e-1") is not None


def test_rows_are_compared_over_the_seeds_that_all_have() -> None:
    blocks = {"v": block(rotta=scored(20.0, 40.0), bn=scored(30.0))}
    cells = like_for_like(blocks, {("v", "rotta"): 25.0, ("v", "bn"): None, ("v", "tent"): 1.0})
    assert cells["v", "rotta"] == Entry(20.0, None, 1, 25.0)
    assert cells["v", "bn"].measured == 30.0
    assert cells["v", "tent"] == Entry(printed=1.0)


def test_the_mean_of_what_is_not_whole_is_missing() -> None:
    assert mean_of([Entry(1.0, seeds=1), Entry()], 3.0) == Entry(printed=3.0)
    assert mean_of([Entry(1.0, seeds=1), Entry(2.0, seeds=3)]).measured == 1.5


def test_mixed_precision_is_said() -> None:
    blocks = {
        "a": Result({"rotta": scored(1.0)}, {}),
        "b": Result({"rotta:precision=float16": scored(1.0)}, {}),
        "c": Result({"rotta:precision=float16": scored(1.0)}, {}),
    }
    remark = precision_remark(blocks, [(name, "rotta") for name in blocks])
    assert remark.startswith("In float32: a. All others in float16;")
    assert precision_remark(blocks, [("a", "rotta")]) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (35.0, "is the best of those measured, as in the paper"),
        (34.2, "no more than seeds may differ"),
        (33.6, "by 0.8. The default is within a point of it"),
        (32.0, "by 2.4. The default is more than a point above it"),
    ],
)
def test_a_default_that_is_not_the_best_is_told(other: float, words: str) -> None:
    assert words in best_is_default({"0.1": Entry(other), "0.05": Entry(34.4)}, "0.05")


def test_parts_that_cost_nothing_are_named() -> None:
    whole = {"CIFAR10-C": Entry(26.0), "CIFAR100-C": Entry(34.4)}
    parts = {"without CSTU": {"CIFAR10-C": Entry(49.8), "CIFAR100-C": Entry(33.8)}}
    told = all_worse(parts, whole)
    assert "Unlike in the paper" in told
    assert "without CSTU on CIFAR100-C: 33.8, the whole method 34.4" in told
    assert "CIFAR10-C: 49.8" not in told
    assert all_worse({"x": {"CIFAR10-C": Entry()}}, whole) == ""


def over_sizes(**errors: tuple[float | None, float | None]) -> dict[str, dict[str, Entry]]:
    return {
        name: {"16": Entry(small), "512": Entry(large)} for name, (small, large) in errors.items()
    }


@pytest.mark.parametrize("claimed", [False, True])
def test_who_is_the_best_is_held_beside_the_paper(claimed: bool) -> None:
    ahead = over_sizes(RoTTA=(35.0, 36.0), BN=(46.0, 40.0))
    assert where_best(ahead, "RoTTA", claimed=claimed).startswith("RoTTA is the best at 16, 512")
    behind = over_sizes(RoTTA=(35.0, 36.0), BN=(34.0, 33.0), PL=(34.5, None))
    sentence = where_best(behind, "RoTTA", claimed=claimed)
    assert "not the best at 16 (BN 34.0, RoTTA 35.0), 512 (BN 33.0, RoTTA 36.0)." in sentence
    assert ("Unlike in the paper" in sentence) == claimed
    assert where_best(over_sizes(RoTTA=(35.0, None)), "RoTTA", claimed=claimed) == ""


def test_trends_are_held_beside_the_paper() -> None:
    errors = over_sizes(BN=(46.6, 33.7), NOTE=(53.5, 53.7), LAME=(45.1, 50.3), PL=(79.6, None))
    assert trends(errors, ["BN", "NOTE", "PL"], ["LAME"]) == (
        "From 16 to 512, as in the paper: BN gets better (46.6 → 33.7), "
        "LAME gets worse (45.1 → 50.3). "
        "**Unlike in the paper**, NOTE does not get better (53.5 → 53.7)."
    )
    assert trends(over_sizes(BN=(46.6, None)), ["BN"], []) == ""


def test_averages_near_the_paper_are_told_from_others() -> None:
    entries = {
        "near": Entry(26.7, printed=25.2),
        "far": Entry(26.8, printed=25.2),
        "new": Entry(1.0),
    }
    assert agreement(entries) == "Within 1.5 points of the paper: near (+1.5). Not: far (+1.6)."


TRAINED = Training("t", "pacs", "photo", "efficientnet-lite0", "imagenet", 1, 0.1, 2)
WALK = Walk(Variant("v", "digits-c", "digits", ("rotta",)), "rotta", 0, None, "cpu")


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "cifar10-c"},
        {"source": "other"},
        {"source": TRAINED},
        {"setting": "continual"},
        {"delta": 1.0},
        {"order": 3},
        {"order": ("fog",)},
        {"visits": 2},
        {"batch_size": 32},
        {"split": "all"},
        {"image_size": 64},
    ],
)
def test_whatever_decides_a_result_tells_walks_apart(change: dict[str, object]) -> None:
    changed = replace(WALK, variant=replace(WALK.variant, **change))  # type: ignore[arg-type]
    assert changed.identity != WALK.identity


def test_seed_limit_and_method_tell_walks_apart_but_names_do_not() -> None:
    for other in (replace(WALK, seed=1), replace(WALK, limit=3), replace(WALK, method="bn")):
        assert other.identity != WALK.identity
    renamed = replace(WALK, variant=replace(WALK.variant, name="w", methods=("bn", "rotta")))
    assert renamed.identity == WALK.identity
    assert replace(WALK, variant=replace(WALK.variant, order=5)).identity == WALK.identity


def test_another_training_is_another_source() -> None:
    longer = replace(TRAINED, epochs=2)
    assert TRAINED.full_name != longer.full_name
