import pytest

from rotta.streams import ORDERS, PAPER_ORDER, SETTINGS
from rotta.streams.domains import resolve_order


def test_ten_orders_of_the_same_fifteen_corruptions() -> None:
    assert len(set(ORDERS)) == 10
    assert {frozenset(order) for order in ORDERS} == {frozenset(PAPER_ORDER)}
    assert all(len(order) == 15 for order in ORDERS)


def test_order_of_the_main_tables() -> None:
    printed = (
        "motion snow fog shot defocus contrast zoom brightness frost elastic glass gaussian "
        "pixelate jpeg impulse"
    )
    assert [name.split("_")[0] for name in PAPER_ORDER] == printed.split()


def test_ends_of_each_order() -> None:
    ends = [(order[0].split("_")[0], order[-1].split("_")[0]) for order in ORDERS]
    assert ends == [
        ("brightness", "contrast"),
        ("jpeg", "motion"),
        ("contrast", "fog"),
        ("shot", "zoom"),
        ("pixelate", "elastic"),
        ("motion", "impulse"),
        ("frost", "gaussian"),
        ("defocus", "impulse"),
        ("glass", "elastic"),
        ("contrast", "brightness"),
    ]


def test_settings_are_the_four_combinations() -> None:
    assert {(s.changing, s.correlated) for s in SETTINGS.values()} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }
    assert SETTINGS["ptta"].changing
    assert SETTINGS["ptta"].correlated
    assert all(name == setting.name for name, setting in SETTINGS.items())


def test_orders_are_resolved() -> None:
    assert resolve_order(None, ("b", "a")) == ("b", "a")
    assert resolve_order(["a"], ("b", "a")) == ("a",)
    assert resolve_order("fog", ("fog", "snow")) == ("fog",)
    assert resolve_order(3, (*PAPER_ORDER, "clean")) == ORDERS[3]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (12, "order 12 does not exist: choose 0 … 9"),
        (-1, "order -1 does not exist"),
        (["snow", "fogg"], "unknown domain 'fogg': did you mean 'fog'"),
        (["fog", "fog"], "visits=2"),
        ([], "names no domain"),
    ],
)
def test_mistaken_orders(order: int | list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_order(order, PAPER_ORDER)


def test_rows_need_the_corruptions() -> None:
    with pytest.raises(ValueError, match=r"order 5 .* has no snow, .* Available: photo, fog"):
        resolve_order(5, ("photo", "fog", "motion_blur"))


def test_the_ten_orders_are_the_papers() -> None:
    """Told by three letters each, so that two swapped names cannot hide."""
    short = ["".join(name[:3] for name in order) for order in ORDERS]
    assert short == [
        "bripixgaumotzooglaimpjpedefelashofrosnofogcon",
        "jpeshozoofroconfogdefelagaubriglaimppixsnomot",
        "condefgaushosnofroglazooelajpepixbriimpmotfog",
        "shofogglapixsnoelabriimpdeffrocongaumotjpezoo",
        "pixglazoosnofogimpbrimotfrojpegaushocondefela",
        "motsnofogshodefconzoobrifroelaglagaupixjpeimp",
        "froimpjpeconzooglapixsnodefmotbrielashofoggau",
        "defmotzooshogauglajpefogconpixfrosnobrielaimp",
        "glazooimpfogsnojpegaufroshobriconmotpixdefela",
        "congaudefzoofroglajpefogpixelashoimpsnomotbri",
    ]
