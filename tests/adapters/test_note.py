"""NOTE beside a replay that takes one sample at a time."""

from typing import Any

import torch
from small_methods import EVERY, images, make, small_net, stream, walk
from torch import Tensor

import rotta
from rotta.adapters.note import NOTE
from rotta.memory.pbrs import PBRS
from rotta.models import build
from rotta.nn.iabn import InstanceAwareNorm
from rotta.nn.surgery import copy_sharing_weights, replace_batch_norms


def note(**options: Any) -> NOTE:
    model = make("note", **options)
    assert isinstance(model, NOTE)
    return model


class Replay:
    """Predict, present to the reservoir sample by sample, update after every 16th."""

    def __init__(self) -> None:
        self.net = replace_batch_norms(
            copy_sharing_weights(small_net()), InstanceAwareNorm.from_batchnorm
        )
        norms = [m for m in self.net.modules() if isinstance(m, InstanceAwareNorm)]
        self.optimiser = torch.optim.Adam([p for m in norms for p in m.parameters()], lr=1e-4)
        self.reservoir = PBRS(EVERY, 10, torch.Generator().manual_seed(0))
        self.seen = 0

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.net.eval()(x)
        for i, label in enumerate(logits.argmax(1)):
            self.reservoir.insert(x[i : i + 1], label[None], torch.zeros(1))
            self.seen += 1
            if self.seen % EVERY == 0:
                self.update()
        return logits

    def update(self) -> None:
        p = self.net.train()(self.reservoir.images).softmax(1)  # full from the first on
        self.optimiser.zero_grad()
        (-(p * p.log()).sum(1).mean()).backward()
        self.optimiser.step()


def test_batches_follow_the_replay() -> None:
    model, replay = note(), Replay()
    for x in stream(10):
        assert torch.allclose(model(x), replay(x), atol=1e-4)


def test_predictions_do_not_depend_on_the_others_in_the_batch() -> None:
    """Before the first update: each instance is normalised around the running statistics."""
    x = images(EVERY - 1)
    together, apart = note()(x), walk(note(), list(torch.split(x, 1)))
    assert torch.allclose(together, torch.cat(apart), atol=1e-5)


def test_what_moves_and_what_does_not() -> None:
    model = note()
    before = {key: t.clone() for key, t in model.net.state_dict().items()}
    model(images(EVERY - 1))
    assert all(torch.equal(t, before[key]) for key, t in model.net.state_dict().items())
    model(images(1))
    moved = {key for key, t in model.net.state_dict().items() if not torch.equal(t, before[key])}
    norms = {key for key, m in model.net.named_modules() if isinstance(m, InstanceAwareNorm)}
    fields = ("weight", "bias", "running_mean", "running_var")
    assert moved == {f"{norm}.{field}" for norm in norms for field in fields}


def test_options_reach_the_layers() -> None:
    model = note(k=2.0, momentum=0.5)
    norms = [m for m in model.net.modules() if isinstance(m, InstanceAwareNorm)]
    assert {(m.k, m.momentum) for m in norms} == {(2.0, 0.5)}


def test_its_norms_do_the_relus_behind_them() -> None:
    model = rotta.adapt(build("wrn-10-1", 10, seed=0), "note", num_classes=10)
    assert isinstance(model, NOTE)
    norms = [m for m in model.net.modules() if isinstance(m, InstanceAwareNorm)]
    assert norms
    assert all(norm.relu for norm in norms)
