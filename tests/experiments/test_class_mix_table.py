"""Methods with and without the mix of classes: what is walked, and what is said of it."""

from pathlib import Path

from rotta.experiments import EXPERIMENTS
from rotta.experiments.experiment import Blocks
from rotta.experiments.reproduce import Wanted, plan
from rotta.report.beside import to_markdown
from rotta.results import MethodResult, Result, SeedResult, Windows

TABLE = EXPERIMENTS["table-class-mix"]


def scored(error: float) -> MethodResult:
    windows = Windows([1], [0.0], [0.0], [0.0])
    return MethodResult.over({0: SeedResult(error, {"fog": error}, {}, 1.0, windows)})


def blocks_of(setting: str, errors: dict[str, float]) -> Blocks:
    return {
        f"cifar10-c, {setting}": Result({name: scored(e) for name, e in errors.items()}, {}),
    }


def test_every_method_goes_with_it_and_without_it(tmp_path: Path) -> None:
    walks = list(plan([TABLE], tmp_path, Wanted(variants=("cifar10-c*",))).walks)
    assert {walk.identity.setting for walk in walks} == {"ptta", "continual"}
    labels = {walk.method for walk in walks}
    assert {"rotta", "rotta:class_mix=true", "rotta-lasting", "lame"} <= labels


def test_a_table_has_settings_across() -> None:
    blocks = blocks_of("ptta", {"rotta": 26.0, "rotta:class_mix=true": 19.0})
    table = to_markdown(TABLE.present(blocks).grids[0])
    assert "\n| RoTTA | 26.0 | missing |" in table
    assert "\n| RoTTA (class\\_mix=true) | **19.0** | missing |" in table


def verdict(setting: str, error: float) -> str:
    blocks = blocks_of(setting, {"rotta": 26.0, "rotta:class_mix=true": error})
    (line,) = TABLE.present(blocks).remarks
    return line


def test_where_samples_are_correlated_it_must_be_better() -> None:
    assert "(at most 26.00): yes, 19.00." in verdict("ptta", 19.0)
    assert "(at most 26.00): **no**, 26.10." in verdict("ptta", 26.1)


def test_where_they_are_not_it_may_cost_little() -> None:
    assert "(at most 26.30): yes, 26.20." in verdict("continual", 26.2)
    assert "(at most 26.30): **no**, 26.40." in verdict("continual", 26.4)
