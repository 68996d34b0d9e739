"""Predictions in view of the classes that arrive: better where samples are correlated."""

from typing import Any

import pytest
import torch
from small_methods import make, stream, tiny_net
from torch import Tensor

from rotta.adapters import METHODS
from rotta.adapters.class_mix import ClassMix
from rotta.pool import StreamPool

CLASSES = 10
every_method = pytest.mark.parametrize("name", METHODS)


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def runs(count: int, length: int) -> Tensor:
    """Labels, (count · length,), that stay the same for a while."""
    return torch.randint(CLASSES, (count,), generator=draws(1)).repeat_interleave(length)


def unsure_logits(labels: Tensor, bias: Tensor | None = None) -> Tensor:
    """Those of a classifier that errs for a third of the samples, (N, C)."""
    noise = torch.randn(len(labels), CLASSES, generator=draws(2))
    logits = noise + 2.5 * torch.nn.functional.one_hot(labels, CLASSES)
    return logits if bias is None else logits + bias


def answers(mix: ClassMix, logits: Tensor, batch_size: int = 16) -> Tensor:
    """Of a stream, batch by batch, (N, C)."""
    parts = []
    for batch in torch.split(logits, batch_size):
        parts.append(mix(batch))
        mix.remember(batch)
    return torch.cat(parts)


def error(logits: Tensor, labels: Tensor) -> float:
    return 100 * float((logits.argmax(dim=1) != labels).float().mean())


@pytest.mark.parametrize("batch_size", [1, 16, 50, 300])
def test_correlated_samples_help_each_other(batch_size: int) -> None:
    labels = runs(20, 60)
    logits = unsure_logits(labels)
    assert error(logits, labels) > 15
    corrected = error(answers(ClassMix(CLASSES), logits, batch_size), labels)
    assert corrected < error(logits, labels) / 2


def test_independent_samples_are_left_alone() -> None:
    labels = torch.randint(CLASSES, (1200,), generator=draws(3))
    logits = unsure_logits(labels)
    assert abs(error(answers(ClassMix(CLASSES), logits), labels) - error(logits, labels)) < 0.5


def test_a_biased_network_is_not_taken_for_a_stream_of_one_class() -> None:
    labels = torch.randint(CLASSES, (6000,), generator=draws(4))
    logits = unsure_logits(labels, 4 * torch.nn.functional.one_hot(torch.tensor(7), CLASSES))
    corrected = answers(ClassMix(CLASSES), logits, batch_size=64)
    used_to_it = slice(3000, None)
    before, after = (error(which[used_to_it], labels[used_to_it]) for which in (logits, corrected))
    assert before > 50
    assert after < before + 0.5


def test_one_sample_alone_is_what_the_network_says() -> None:
    logits = unsure_logits(runs(1, 1))
    assert torch.allclose(ClassMix(CLASSES)(logits).exp(), logits.softmax(dim=1), atol=1e-6)


def test_answers_are_probabilities() -> None:
    answer = answers(ClassMix(CLASSES), 1e4 * unsure_logits(runs(4, 30)))
    assert torch.allclose(answer.exp().sum(dim=1), torch.ones(120))
    assert answer.isfinite().all()


def test_what_is_not_finite_is_answered_so_and_forgotten() -> None:
    logits = unsure_logits(runs(2, 20))
    broken = torch.cat([logits, logits[:2] * torch.nan, logits[:1] * torch.inf])
    mix, clean = ClassMix(CLASSES), ClassMix(CLASSES)
    answer = mix(broken)
    assert answer[-3:].isnan().all()
    assert torch.equal(answer[:32], clean(logits)[:32])  # of the same 32 samples
    mix.remember(broken)
    clean.remember(logits)
    later = unsure_logits(runs(3, 10))
    assert answers(mix, later).isfinite().all()
    assert torch.allclose(mix.usual, clean.usual, atol=1e-2)


@every_method
def test_nothing_else_is_learnt(name: str) -> None:
    with_it, without = (make(name, tiny_net(), class_mix=on) for on in (True, False))
    for x in stream(4, 8):
        with_it(x)
        without(x)
    state, plain = with_it.state_dict(), without.state_dict()
    assert {key for key in state if key not in plain} == {
        f"class_mix.{part}" for part in ("recent", "known", "usual")
    }
    for key, value in plain.items():
        if isinstance(value, Tensor):
            assert torch.equal(state[key], value), key


@every_method
def test_predicting_is_answering_without_a_trace(name: str) -> None:
    model = make(name, tiny_net(), class_mix=True)
    for x in stream(3, 8):
        told = model.predict(x)
        assert torch.equal(told, model.predict(x))
        assert torch.equal(told, model(x))


@every_method
def test_reset_and_state(name: str) -> None:
    model, other = (make(name, tiny_net(), class_mix=True) for _ in range(2))
    batches = stream(4, 8)
    first = [model(x) for x in batches]
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(batches[0]), other(batches[0]))
    model.reset()
    assert all(torch.equal(model(x), told) for x, told in zip(batches, first, strict=True))


def test_state_of_a_method_without_it_is_refused() -> None:
    state = make("tent", tiny_net()).state_dict()
    with pytest.raises(ValueError, match="same method with the same options"):
        make("tent", tiny_net(), class_mix=True).load_state_dict(state)


def test_the_lasting_one_has_it_and_rotta_has_not() -> None:
    assert make("rotta-lasting", tiny_net()).class_mix is not None
    assert make("rotta", tiny_net()).class_mix is None


def test_a_pool_has_none() -> None:
    options: dict[str, Any] = {"class_mix": True}
    with pytest.raises(ValueError, match="a pool has no option class_mix"):
        StreamPool(tiny_net(), 4, **options)
