"""What a terminal shows of a comparison: while it goes on, and at its end."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from rotta.cli import live
from rotta.cli.table import terminal_table
from rotta.comparison import Failed, Finished, Look
from rotta.report.tables import Cell, ComparisonTable, Row
from rotta.results import SeedResult, Windows


def terminal(width: int = 120) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(force_terminal=True, width=width, file=written, color_system="standard"), written


def finished(label: str, seed: int, error: float, seconds: float) -> Finished:
    result = SeedResult(error, {"fog": error}, {}, 1.0, Windows([], [], [], []))
    return Finished(label, seed, seconds, result)


def lines(width: int, std: float | None = 0.5) -> list[str]:
    domains = tuple(f"weather_{letter}" for letter in "abcdefgh")
    best, second = Cell(30.0, 1), Cell(40.0, 2)
    rows = (
        Row("bn", "BN", (best,) * 8, best, std, 4.0),
        Row("[x]", "[x]", (second,) * 8, second, std, 5.0),
    )
    console, written = terminal(width)
    console.print(terminal_table(ComparisonTable(domains, rows), console))
    return written.getvalue().splitlines()


def test_methods_go_down_where_the_terminal_is_wide() -> None:
    head, bn, other = lines(width=160)
    assert head.split()[-2:] == ["average", "ms/batch"]
    assert bn.count("\x1b[1m30.0\x1b[0m") == 9  # best is bold
    assert other.count("\x1b[4m40.0\x1b[0m") == 9  # second is underlined
    assert "\x1b[0m ± 0.5" in bn
    assert other.startswith(" [x] ")


def test_domains_go_down_where_it_is_narrow() -> None:
    head, *domains, average, spread, times = lines(width=50)
    assert head.split() == ["error", "%", "BN", "[x]"]
    assert len(domains) == 8
    assert re.sub(r"\x1b\[\dm", "", average).split() == ["average", "30.0", "40.0"]
    assert spread.split() == ["±", "0.5", "±", "0.5"]
    assert times.split() == ["ms/batch", "4.0", "5.0"]


def test_one_seed_has_no_spread() -> None:
    for width in (50, 160):
        assert not any("±" in line for line in lines(width, std=None))


BN_LOOK = Look("bn", 0, batches=5, total=20, error=12.34, seconds=10.0, speed=0.5)
BN_DONE = finished("bn", 0, error=12.0, seconds=40.0)
BN_AGAIN = Look("bn", 1, batches=10, total=20, error=14.0, seconds=20.0, speed=0.5)
ROTTA_LOOK = Look("rotta", 0, batches=20, total=20, error=9.0, seconds=4000.0, speed=0.005)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([BN_LOOK], r"bn .*  5/40 +12\.3 % +0:10  left 1:10"),
        ([BN_LOOK, BN_DONE, ROTTA_LOOK], r"bn .* 20/40 +12\.0 % +0:40  left 0:40"),
        ([BN_LOOK, BN_DONE, ROTTA_LOOK], r"rotta .* 20/40 +9\.0 % +1:06:40  left 1:06:40"),
        # the time of other methods is not its own
        (
            [BN_LOOK, BN_DONE, ROTTA_LOOK, BN_AGAIN],
            r"bn .* 30/40 +14\.0 % +1:00  left 0:20",
        ),
        # in company it is not as fast as it would be alone
        ([replace(BN_LOOK, speed=0.1)], r"bn .*  5/40 +12\.3 % +0:10  left 5:50"),
        ([replace(BN_LOOK, speed=0.0)], r"bn .*  5/40 +12\.3 % +0:10 *\n"),
        # two processes at one seed, one at the other
        (
            [replace(BN_LOOK, speed=1.0), BN_AGAIN],
            r"bn .* 15/40 +13\.2 % +0:30  left 0:17",
        ),
        # at the end the mean of its seeds, and no more to wait for
        (
            [BN_LOOK, BN_DONE, BN_AGAIN, finished("bn", 1, 14.0, 40.0)],
            r" 40/40 +13\.0 % +1:20 *\n",
        ),
        ([Failed("rotta", 0, "RuntimeError: [oh]", "")], r"rotta, seed 0: RuntimeError: \[oh\]"),
    ],
)
def test_a_row_shows_batches_error_and_time(
    events: list[Look | Finished | Failed], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    console, written = terminal()
    monkeypatch.setattr(live, "errors", console)
    with live.Live(["bn", "rotta"], seeds=2) as shown:
        for event in events:
            if isinstance(event, Look):
                shown.look(event)
            else:
                shown.end(event)
    assert re.search(expected, re.sub(r"\x1b\[[\d;]*m", "", written.getvalue()))


def test_images_being_made_have_a_row_while_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    for done, is_there in ((10, True), (100, False)):
        console, written = terminal()
        monkeypatch.setattr(live, "errors", console)
        with live.Live(["bn"], seeds=1) as shown:
            shown.images(done, 100)
        last_frame = written.getvalue().split("\x1b[?25h")[0].split("\x1b[2K")[-1]
        assert ("making images" in last_frame) == is_there


def test_elsewhere_a_line_tells_of_each_finished_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(live, "errors", Console(file=written))
    with live.Live(["bn"], seeds=1) as shown:
        shown.images(10, 100)
        shown.look(Look("bn", 3, batches=5, total=20, error=12.34, seconds=10.0))
        shown.end(finished("bn", 3, error=12.0, seconds=40.0))
    assert written.getvalue() == "bn, seed 3: error 12.0 %, 40.0 s\n"
