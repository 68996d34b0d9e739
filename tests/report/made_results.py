"""Results of runs that never took place, for the report's tests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rotta.results import BankCourse, GuardEvent, MethodResult, Result, SeedResult, Windows
from rotta.streams import PAPER_ORDER

PER_DOMAIN = 100


def method(errors: Mapping[str, float], **changed: Any) -> MethodResult:
    """What one seed would give, with nothing but domains' errors."""
    average = float(np.mean(list(errors.values())))
    values: dict[str, Any] = {"average_error": average, "per_domain": dict(errors)}
    values |= {"per_class": {}, "ms_per_batch": 1.0, "std": None, "seeds": {}}
    return MethodResult(**(values | changed))


def walk(
    error: float,
    order: Sequence[str],
    classes: Sequence[str],
    *,
    bank: bool = False,
    windows: int = 20,
    per_domain: int = PER_DOMAIN,
    seed: int = 0,
) -> SeedResult:
    rng = np.random.default_rng(seed)
    errors = rng.uniform(error - 2, error + 2, windows)
    samples = np.linspace(0, per_domain * len(order), windows + 1)[1:].astype(int).tolist()
    counts = rng.multinomial(64, np.full(len(classes), 1 / len(classes)), windows).tolist()
    values = rng.uniform(0, 100, len(classes))
    domains = dict.fromkeys(order, float(errors.mean()))
    return SeedResult(
        average_error=float(errors.mean()),
        per_domain=domains,
        per_class={name: float(value) for name, value in zip(classes, values, strict=True)},
        ms_per_batch=error / 4,
        windows=Windows(samples, errors.tolist(), [0.5] * windows, [0.9] * windows),
        bank=BankCourse(samples, counts, [40.0] * windows) if bank else None,
    )


def result(
    errors: Mapping[str, float],
    *,
    order: Sequence[str] = PAPER_ORDER,
    classes: Sequence[str] = tuple("0123456789"),
    seeds: Sequence[int] = (0,),
    **config: Any,
) -> Result:
    """A run of methods with the given errors; RoTTA and NOTE have banks."""
    scored = {
        label: MethodResult.over(
            {
                seed: walk(error, order, classes, bank=label in ("rotta", "note"), seed=seed)
                for seed in seeds
            }
        )
        for label, error in errors.items()
    }
    settled = {"dataset": "digits-c", "setting": "ptta", "delta": 0.1, "visits": 1}
    settled |= {"order": list(order), "classes": list(classes), "seeds": list(seeds)}
    settled |= {"domain_sizes": [PER_DOMAIN] * len(order)}
    return Result(scored, {**settled, "batch_size": 64, **config}, {"device": "a computer"})


def guard_event(batch: int, action: str = "reset", **changed: Any) -> GuardEvent:
    """In a stream of 64 images per batch."""
    values: dict[str, Any] = {"domain": "fog", "cause": "lost belief", "evidence": 12345.0}
    values |= {"rate": 0.1, "signals": {"lost belief": 0.314, "gradient norm": None}}
    return GuardEvent(batch=batch, action=action, **{"samples": 64 * batch} | values | changed)


def with_incidents(made: Result, label: str, **incidents: Any) -> Result:
    """The same run, with ``events`` or ``skipped`` in every walk of a method."""
    method = made.methods[label]
    seeds = {seed: replace(walk, **incidents) for seed, walk in method.seeds.items()}
    return replace(made, methods={**made.methods, label: replace(method, seeds=seeds)})
