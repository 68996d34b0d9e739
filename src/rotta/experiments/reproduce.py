"""Run experiments: what is missing, in which order, and where its results go."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rotta.adapters.choice import parse_methods
from rotta.adapters.precision import FULL
from rotta.experiments.engines import Broken
from rotta.experiments.experiment import Experiment, Training, Variant
from rotta.experiments.measured import method_result
from rotta.experiments.store import QUICK_FOLDER, QUICK_LIMIT, Store, load
from rotta.experiments.tasks import Identity, SourceTask, Walk, Walked, perform, prepare
from rotta.experiments.under_way import forget

ONE_SEED = ("cotta",)
"""Methods that walk along the first seed only: an order of magnitude dearer than the others."""

Engine = Callable[..., Generator[tuple[Any, Any], None, None]]
"""Called with tasks, with what to do with each, and with ``tell=`` for the news; yields each task
with its end as soon as it is over."""


@dataclass(frozen=True)
class Wanted:
    """What of the experiments is to be run."""

    seeds: tuple[int, ...] = (0,)
    limit: int | None = None
    """Images per domain; all if there is none."""
    methods: tuple[str, ...] = ("*",)
    """Patterns of labels, such as ``rotta*``."""
    variants: tuple[str, ...] = ("*",)
    """Patterns of variants' names."""
    precision: str | None = None
    """Of methods that have several, where it is not float32."""
    device: str = "cpu"


@dataclass(frozen=True)
class Place:
    """Where the result of a walk belongs."""

    store: Store
    variant: Variant


@dataclass(frozen=True)
class Plan:
    """Walks in the order in which they are done, each with all places that want its result."""

    walks: dict[Walk, tuple[Place, ...]]
    finished: int
    """Walks that need not be done: they are in the results already."""

    def trainings(self) -> list[SourceTask]:
        """Source models that the walks start from."""
        sources = ((walk.variant.source, walk.device) for walk in self.walks)
        return list(
            dict.fromkeys(SourceTask(s, device) for s, device in sources if isinstance(s, Training))
        )


def results_folder(root: Path, experiment: Experiment, limit: int | None) -> Path:
    """Where an experiment's results are; those over few images are kept apart.

    Example:
        >>> results_folder(Path("results"), Experiment("table-nu", ""), 2000).as_posix()
        'results/quick/table-nu'
    """
    if limit is None:
        return root / experiment.name
    apart = QUICK_FOLDER if limit == QUICK_LIMIT else f"limit-{limit}"
    return root / apart / experiment.name


def plan(experiments: Sequence[Experiment], root: Path, wanted: Wanted) -> Plan:
    """See what there is, take over what other experiments have, and list what is to be done.

    Seed by seed, so that what is stopped half way has a whole table of the first.

    Args:
        experiments: In the order in which they are run.
        root: Of the results.
        wanted: Which part of them.

    Raises:
        ValueError: The patterns match nothing, or results there were made otherwise.
    """
    stores = [Store(e, results_folder(root, e, wanted.limit)) for e in experiments]
    known = dict(_all_walks(root, wanted.limit))
    walks: dict[Walk, list[Place]] = {}
    taken_over: list[tuple[Place, Walk]] = []
    finished = 0
    first_of: dict[Identity, Walk] = {}
    for seed in wanted.seeds:
        for store in stores:
            for variant, label in _chosen(store.experiment, wanted):
                if _too_dear(label, seed, wanted, store.seeds(variant, label)):
                    continue
                walk = Walk(variant, label, seed, wanted.limit, wanted.device)
                place = Place(store, variant)
                if store.has(walk):
                    finished += 1
                elif walk.identity in known:
                    taken_over.append((place, walk))
                else:
                    same = first_of.setdefault(walk.identity, walk)
                    walks.setdefault(same, []).append(place)
    for place, walk in taken_over:  # only now: until here, anything may be refused
        place.store.add(place.variant, walk.method, walk.seed, known[walk.identity])
    finished += len(taken_over)
    if not walks and not finished and any(e.variants for e in experiments):
        raise ValueError("no walk fits --methods and --variants: give other patterns")
    return Plan({walk: tuple(places) for walk, places in walks.items()}, finished)


def _too_dear(label: str, seed: int, wanted: Wanted, done: set[int]) -> bool:
    """Whether a walk is left out: some methods have one seed only, the first or what they have."""
    return label.startswith(ONE_SEED) and (seed != wanted.seeds[0] or bool(done - {seed}))


def progress_of(experiment: Experiment, root: Path, limit: int | None) -> tuple[int, int]:
    """Methods and streams with at least one walk, whatever its seed and precision; and all."""
    blocks = load(results_folder(root, experiment, limit))
    pairs = [(v.name, label) for v in experiment.variants for label in v.methods]
    return sum(method_result(blocks, *pair) is not None for pair in pairs), len(pairs)


def carry_out(
    plan: Plan, engine: Engine, tell: Callable[[Any], None] | None = None
) -> Generator[tuple[Walk | SourceTask, Walked | float | Broken], None, None]:
    """Train what has to be trained, then walk; every result is written before it is yielded.

    A walk whose source could not be trained is not tried.

    Args:
        plan: What to do.
        engine: Who does it.
        tell: Is told now and then how far a walk is.
    """
    broken: set[Training] = set()
    with closing(engine(plan.trainings(), prepare, tell=tell)) as trained:
        for task, end in trained:
            if isinstance(end, Broken):
                broken.add(task.training)
            yield task, end
    walks = [walk for walk in plan.walks if walk.variant.source not in broken]
    for walk in plan.walks:
        if walk.variant.source in broken:
            yield walk, Broken("its source model could not be trained")
    with closing(engine(walks, perform, tell=tell)) as walked:
        for walk, end in walked:
            if not isinstance(end, Broken):
                for place in plan.walks[walk]:
                    place.store.add(place.variant, walk.method, walk.seed, end)
                forget(walk)
            yield walk, end


def wanted_variants(experiments: Sequence[Experiment], wanted: Wanted) -> list[Variant]:
    """Those with a walk that fits the patterns."""
    fitting = (pair for experiment in experiments for pair in _chosen(experiment, wanted))
    return list(dict.fromkeys(variant for variant, _ in fitting))


def _chosen(experiment: Experiment, wanted: Wanted) -> Iterator[tuple[Variant, str]]:
    for variant in experiment.variants:
        if not any(fnmatchcase(variant.name, pattern) for pattern in wanted.variants):
            continue
        for label in variant.methods:
            if any(fnmatchcase(label, pattern) for pattern in wanted.methods):
                yield variant, _in_precision(label, wanted.precision)


def _in_precision(label: str, precision: str | None) -> str:
    """The label of a walk in another precision, for methods that have several."""
    (choice,) = parse_methods(label)
    if "precision" in choice.settings and precision not in (None, FULL):
        choice = replace(choice, options={**choice.options, "precision": precision})
    return choice.label


def _all_walks(root: Path, limit: int | None) -> Iterator[tuple[Identity, Walked]]:
    """Of every experiment, whichever are asked for."""
    from rotta.experiments import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        yield from Store(experiment, results_folder(root, experiment, limit)).walks()
