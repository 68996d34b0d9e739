"""On a GPU, where it is replayed as a CUDA graph, the class mix is what it is on a CPU."""

import pytest
import torch
from torch import Tensor

from rotta.adapters.class_mix import ClassMix

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def predictions(count: int, seed: int) -> Tensor:
    """Of correlated samples: two classes at a time."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, 5, generator=generator)
    logits[:, seed % 5] += 2
    return logits


def test_answers_are_those_of_a_cpu() -> None:
    here, there = ClassMix(5), ClassMix(5).cuda()
    for seed in range(20):
        logits = predictions(40 if seed % 3 else 7, seed)
        expected, found = here(logits), there(logits.cuda())
        assert torch.allclose(found.cpu(), expected, atol=1e-4)
        here.remember(logits)
        there.remember(logits.cuda())
    assert not torch.allclose(expected, logits.log_softmax(dim=1), atol=0.1)


def test_what_was_recorded_is_not_replayed_elsewhere() -> None:
    mix, twin = ClassMix(5).cuda(), ClassMix(5)
    for seed in range(8):
        mix(predictions(9, seed).cuda())
        mix.remember(predictions(9, seed).cuda())
        twin.remember(predictions(9, seed))
    mix = mix.cpu().cuda()
    x = predictions(9, 9)
    assert torch.allclose(mix(x.cuda()).cpu(), twin(x), atol=1e-4)


def test_a_state_is_loaded_into_what_was_recorded() -> None:
    mix, other = ClassMix(5).cuda(), ClassMix(5)
    for seed in range(8):
        mix(predictions(9, 0).cuda())
        mix.remember(predictions(9, 0).cuda())
        other.remember(predictions(9, seed))
    mix.load_state_dict(other.state_dict())
    x = predictions(9, 9)
    assert torch.allclose(mix(x.cuda()).cpu(), other(x), atol=1e-4)
