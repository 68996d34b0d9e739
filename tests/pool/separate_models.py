"""What a pool must equal: a RoTTA for each stream, and how to compare the two."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rotta.adapters.learnt import Learnt
from rotta.adapters.rotta import RoTTA
from rotta.memory.cstu import CSTU
from rotta.nn.rbn import RobustBatchNorm
from rotta.pool import Prediction, Request, StreamPool, stream_seed
from rotta.state_file import state_from_bytes

SMALL: dict[str, Any] = {"capacity": 7, "update_every": 6, "lr": 0.01, "nu": 0.05, "alpha": 0.1}
"""Updates come often, and change something."""


def small_net(seed: int = 0, num_classes: int = 4, last_channels: int = 6) -> nn.Sequential:
    """Two normalisations, one with a ReLU after it, and a head; in double precision, so that
    rounding decides nothing."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, last_channels, 3),
        nn.BatchNorm2d(last_channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(last_channels, num_classes),
    ).double()
    with torch.no_grad():
        net.train()(images(64, seed))  # statistics of such images
        net.eval()
        head = net[-1]
        assert isinstance(head, nn.Linear)
        spread, mean = torch.std_mean(net(images(64, seed)), dim=0)
        head.weight /= spread[:, None] / 3
        head.bias.sub_(mean).div_(spread / 3)  # or few classes would ever be predicted
    return net


def images(count: int, seed: int, side: int = 8) -> Tensor:
    """Half of them dark, half bright, so that classes differ."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, side, side, generator=generator, dtype=torch.float64)
    return x * torch.rand(count, 3, 1, 1, generator=generator, dtype=torch.float64)


class SeparateModels:
    """The oracle: the same streams without a pool."""

    def __init__(self, net: nn.Module, num_classes: int, *, seed: int = 0, **options: Any) -> None:
        self._net, self._num_classes = net, num_classes
        self._seed, self._options = seed, options
        self.models: dict[str, RoTTA] = {}
        self.frozen: set[str] = set()

    def __call__(self, requests: Sequence[Request]) -> list[Tensor]:
        return [self._one(request) for request in requests]

    def freeze(self, name: str) -> None:
        """What was seen last is judged before."""
        self.frozen.add(name)
        model = self.models[name]
        if model._guard is not None:
            model._guard.settle(Learnt(model))

    def _one(self, request: Request) -> Tensor:
        if request.stream not in self.models:
            seed = stream_seed(self._seed, request.stream)
            model = RoTTA(self._net, self._num_classes, seed=seed, **self._options)
            self.models[request.stream] = model
        model = self.models[request.stream]
        run = model.predict if request.stream in self.frozen else model
        return run(request.images)


def same_logits(predictions: Sequence[Prediction], expected: Sequence[Tensor], atol: float) -> bool:
    return all(
        p.logits is not None and _are_close(p.logits, e, atol)
        for p, e in zip(predictions, expected, strict=True)
    )


def check_same_state(pool: StreamPool, name: str, model: RoTTA, atol: float) -> None:
    """The bank exactly, numbers of the network to ``atol``."""
    state = state_from_bytes(pool.state(name), "stream", name)
    bank, record = state["bank"], state["record"]
    held = slice(model.bank.size())
    assert bank["label"].tolist() == model.bank.label[held].tolist()
    assert bank["arrived"].tolist() == model.bank.arrived[held].tolist()
    assert bank["clock"] == int(model.bank.clock)
    if len(bank["label"]):
        assert torch.equal(bank["images"], model.bank.images[held])
        assert isinstance(model.bank, CSTU)
        close(bank["uncertainty"], model.bank.uncertainty[held], atol)
    assert (record["samples"], record["updates"]) == (model.samples_seen, model.updates)
    assert torch.equal(state["generator"], model.generator.get_state())
    close(state["numbers"][:4], _numbers(model.teacher), atol)
    close(state["numbers"][4:8], _numbers(model.student), atol)
    close(state["numbers"][8:12], _moments(model), atol)
    if model.unlearnt is not None:
        close(state["numbers"][12:], _numbers(model.unlearnt)[:2], atol)
    assert [event["action"] for event in pool.info(name).events] == [
        event["action"] for event in model.events
    ]


def close(own: Tensor, expected: Tensor, atol: float) -> None:
    assert _are_close(own, expected, atol), (own, expected)


def _are_close(own: Tensor, expected: Tensor, atol: float) -> bool:
    """Beside the largest: what is learnt with a huge rate is huge, and so is its rounding."""
    if own.shape != expected.shape:
        return False
    allowed = atol * (1 + 10 * expected.abs().amax().item())
    return torch.allclose(own, expected, rtol=0, atol=allowed)


def _numbers(net: nn.Module) -> Tensor:
    norms = [m for m in net.modules() if isinstance(m, RobustBatchNorm)]
    fields = ("running_mean", "running_var", "weight", "bias")
    return torch.stack([torch.cat([getattr(n, f).detach() for n in norms]) for f in fields])


def _moments(model: RoTTA) -> Tensor:
    norms = [m for m in model.student.modules() if isinstance(m, RobustBatchNorm)]
    state = model.optimiser.state
    return torch.stack(
        [
            torch.cat(
                [
                    state[parameter][moment] if parameter in state else torch.zeros_like(parameter)
                    for parameter in (getattr(norm, name) for norm in norms)
                ]
            )
            for moment in ("exp_avg", "exp_avg_sq")
            for name in ("weight", "bias")
        ]
    ).detach()
