"""What it gives to know which classes arrive: methods with and without ``class_mix``."""

from collections.abc import Iterator

from rotta.experiments.by_setting import grids, variant_name, variants
from rotta.experiments.cifar import TITLES
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import entry, over_common_seeds, precision_remark
from rotta.experiments.verdicts import at_most, said
from rotta.report.names import method_name, setting_name

_PAIRS = {
    "source": "source:class_mix=true",
    "note": "note:class_mix=true",
    "rotta": "rotta:class_mix=true",
    "rotta-lasting:class_mix=false": "rotta-lasting",
}
"""Without and with it."""

_RIVAL = "lame"  # it too corrects predictions alone, for what is near in the same batch
_METHODS = (_RIVAL, *(label for pair in _PAIRS.items() for label in pair))
_SETTINGS = ("ptta", "continual")
_MOST_LOST = 0.3  # points, where samples are independent and there is nothing to know


def _present(blocks: Blocks) -> Presentation:
    rottas = [
        (variant_name(dataset, setting), label)
        for dataset in TITLES
        for setting in _SETTINGS
        for label in _METHODS
        if label.startswith("rotta")
    ]
    remarks = said((*_verdicts(blocks), precision_remark(blocks, rottas)))
    return Presentation(grids(blocks, _METHODS, _SETTINGS), remarks=remarks)


def _verdicts(blocks: Blocks) -> Iterator[str]:
    for dataset, title in TITLES.items():
        for plain, mixed in _PAIRS.items():
            for setting in _SETTINGS:
                name = variant_name(dataset, setting)
                without, within = over_common_seeds(blocks, [(name, plain), (name, mixed)]).values()
                limit = entry(without).value
                if limit is not None and setting == "continual":
                    limit += _MOST_LOST
                bound = "better" if setting == "ptta" else f"at most {_MOST_LOST} points worse"
                where = f"{title}, {setting_name(setting)}"
                claim = f"{where}: {method_name(plain)} is {bound} with the mix of classes known"
                yield at_most(claim, entry(within), limit)


EXPERIMENT = Experiment(
    "table-class-mix",
    "Predictions corrected for the classes that arrive just now",
    variants(_METHODS, _SETTINGS),
    _present,
)
