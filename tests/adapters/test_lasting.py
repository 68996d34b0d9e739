"""RoTTA on a leash: the paper's method without it, the source's γ and β with a short one."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import rotta
from rotta.adapters import METHODS, PAPER_METHODS
from rotta.adapters.lasting import LastingRoTTA, divergence


def batches(number: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(40, 3, 32, 32, generator=generator) for _ in range(number)]


def affine(model: rotta.RoTTA) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model._student_affine])


def test_without_leash_and_mix_it_is_the_papers_method() -> None:
    net = rotta.load_source("digits")
    plain, lasting = rotta.RoTTA(net, 10), LastingRoTTA(net, 10, leash=0.0, class_mix=False)
    for x in batches(6):
        torch.testing.assert_close(lasting(x), plain(x), rtol=0, atol=1e-5)
    assert plain.updates == lasting.updates == 3


def test_the_shortest_leash_keeps_the_source() -> None:
    """All the way back at every update, however little has diverged."""
    held = LastingRoTTA(rotta.load_source("digits"), 10, leash=1e9, lr=0.01, nu=0.5)
    start = affine(held).clone()
    for x in batches(10):
        held(x)
    assert held.updates == 6
    # the teacher, whom nobody pulls, may be ahead of the first divergence
    torch.testing.assert_close(affine(held), start, rtol=0, atol=2e-2)


def distance(leash: float) -> float:
    model = LastingRoTTA(rotta.load_source("digits"), 10, lr=0.01, nu=0.3, leash=leash)
    start = affine(model).clone()
    for x in batches(10):
        model(x)
    return float((affine(model) - start).norm())


def test_the_shorter_the_leash_the_nearer() -> None:
    far, nearer, nearest = distance(0.0), distance(3.0), distance(30.0)
    assert nearest < 0.8 * nearer < 0.8 * far


def test_the_anchor_is_what_it_would_be_had_it_learnt_nothing() -> None:
    """To the last layer: its statistics are those of γ and β that stay."""
    net = rotta.load_source("digits")
    lasting = LastingRoTTA(net, 10, lr=0.02, nu=0.3)
    still = rotta.RoTTA(net, 10, lr=0.0)
    x = batches(1)[0]
    for model in (lasting, still):  # few samples, all of which are kept by either bank
        model(x)
        model(x[:24])
    assert lasting.updates == still.updates == 1
    torch.testing.assert_close(lasting.infer_unlearnt(x), still.predict(x), rtol=0, atol=1e-5)
    assert not torch.allclose(lasting.predict(x), still.predict(x), atol=1e-2)


def test_divergence_is_between_0_and_1_and_symmetric() -> None:
    p = torch.softmax(torch.randn(50, 7, generator=torch.Generator().manual_seed(1)), dim=1)
    q = p.flip(0)
    assert float(divergence(p, p)) == pytest.approx(0, abs=1e-6)
    assert 0 < float(divergence(p, q)) < 1
    assert float(divergence(p, q)) == pytest.approx(float(divergence(q, p)))


def test_it_has_a_name() -> None:
    model = rotta.adapt(rotta.load_source("digits"), "rotta-lasting", leash=0.25)
    assert type(model) is rotta.LastingRoTTA
    assert model.leash == 0.25
    assert "rotta-lasting" in METHODS
    assert "rotta-lasting" not in PAPER_METHODS


def test_its_state_is_that_of_the_papers_method_and_the_anchors() -> None:
    net = rotta.load_source("digits")
    plain, lasting = rotta.RoTTA(net, 10), LastingRoTTA(net, 10)
    more = [name for name in lasting.state_dict() if name not in plain.state_dict()]
    assert more
    assert all(name.startswith(("unlearnt.", "class_mix.")) for name in more)
    assert set(lasting.get_extra_state()) == set(plain.get_extra_state())


def test_the_source_goes_where_the_method_goes() -> None:
    net, moved = rotta.load_source("digits").double(), LastingRoTTA(rotta.load_source("digits"), 10)
    moved.double()
    assert {tensor.dtype for tensor in moved._source_affine} == {torch.float64}
    there = LastingRoTTA(net, 10)
    for x in batches(4):
        torch.testing.assert_close(moved(x.double()), there(x.double()))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_by_itself(copied: Callable[[LastingRoTTA], LastingRoTTA]) -> None:
    model = LastingRoTTA(rotta.load_source("digits"), 10)
    for x in batches(3):
        model(x)
    twin = copied(model)
    own = {t.data_ptr() for t in model._source_affine}
    assert own.isdisjoint(t.data_ptr() for t in twin._source_affine)
    for x in batches(4):
        assert torch.equal(twin(x), model(x))


@pytest.mark.parametrize("leash", [-1.0, float("nan"), float("inf")])
def test_a_leash_that_is_none_is_refused(leash: float) -> None:
    with pytest.raises(ValueError, match="leash must be 0 or more"):
        LastingRoTTA(rotta.load_source("digits"), 10, leash=leash)
