"""Who is measured: everybody asked for, each with a full bank."""

from pathlib import Path
from typing import Any

import torch

from rotta.adapters import PAPER_METHODS
from rotta.adapters.choice import parse_methods
from rotta.bench.subjects import default_methods, make_subjects
from rotta.bench.workload import make_workload

LOAD = make_workload("wrn-10-1", image_size=8)


def test_by_default_all_methods_stand_beside_floor_bare_and_plain() -> None:
    subjects = make_subjects(LOAD, default_methods(LOAD.device, quick=False))
    names = [subject.name for subject in subjects]
    assert names[:4] == ["floor", "bare", "rotta", "plain"]
    assert set(names) == {"floor", "bare", "plain", *PAPER_METHODS}
    assert len(names) == len(set(names))


def test_on_cuda_rotta_goes_in_its_other_ways_too() -> None:
    usual, on_cuda = (default_methods(torch.device(d), quick=False) for d in ("cpu", "cuda"))
    assert [choice.label for choice in usual] == list(PAPER_METHODS)
    assert on_cuda[: len(usual)] == usual
    ways = ["rotta:graphs=false", "rotta:precision=float16", "rotta:precision=bfloat16"]
    assert [choice.label for choice in on_cuda[len(usual) :]] == ways
    assert parse_methods(",".join(ways)) == on_cuda[len(usual) :]


def test_rotta_goes_in_several_ways_and_plain_only_beside_it() -> None:
    ways = make_subjects(LOAD, parse_methods("rotta:nu=0.01,bn,rotta"))
    labels = [(subject.name, subject.role) for subject in ways]
    assert labels[2:4] == [("rotta:nu=0.01", "rotta"), ("rotta", "rotta")]
    assert labels[4:] == [("plain", "plain"), ("bn", "other")]
    without = make_subjects(LOAD, parse_methods("bn"))
    assert [subject.name for subject in without] == ["floor", "bare", "bn"]


def test_without_the_repository_there_is_no_plain() -> None:
    subjects = make_subjects(LOAD, parse_methods("rotta"), plain_file=Path("nowhere.py"))
    assert [subject.name for subject in subjects] == ["floor", "bare", "rotta"]


def test_banks_are_full_from_the_start_and_stay_so() -> None:
    banks: dict[str, Any] = {}
    for subject in make_subjects(LOAD, parse_methods("rotta,note,rotta:capacity=100")):
        method: Any = subject.build()
        if getattr(method, "bank", None) is not None:
            banks[subject.name] = method.bank
            assert len(method.bank) == method.bank.capacity
            for x in LOAD.batches(32):
                method(x)
            assert len(method.bank) == method.bank.capacity
    assert set(banks) == {"rotta", "plain", "note", "rotta:capacity=100"}


def test_a_subject_is_built_afresh_every_time() -> None:
    (subject,) = [s for s in make_subjects(LOAD, parse_methods("rotta")) if s.name == "rotta"]
    first = subject.build()
    before = first.predict(LOAD.images)
    first(LOAD.images)
    assert not torch.equal(first.predict(LOAD.images), before)
    assert torch.equal(subject.build().predict(LOAD.images), before)
