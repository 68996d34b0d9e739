"""The optimiser beside PyTorch's own."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from rotta.adapters.adam import adam, descend


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor([1.0, -2.0])), nn.Parameter(torch.full((2, 1), 0.5))]


def loss(held: list[nn.Parameter]) -> Tensor:
    return (held[0] * 3).square().sum() + (held[1] - held[0]).square().sum()


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_steps_are_pytorchs(scale: float | None) -> None:
    ours, theirs = parameters(), parameters()
    optimiser = adam(ours, lr=0.1)
    reference = torch.optim.Adam(theirs, lr=0.1, fused=True)
    for _ in range(3):
        descend(loss(ours), optimiser, scale)
        reference.zero_grad()
        loss(theirs).backward()  # type: ignore[no-untyped-call]
        reference.step()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_gradients_beyond_all_bounds_move_nothing() -> None:
    held = parameters()
    optimiser = adam(held, lr=0.1)
    descend(loss(held), optimiser, scale=3e38)
    assert held[0].tolist() == [1, -2]
    assert optimiser.state[held[0]]["step"].item() == 0
    descend(loss(held), optimiser, scale=2.0)
    assert held[0].tolist() != [1, -2]


def test_states_are_interchangeable_with_pytorchs() -> None:
    theirs = parameters()
    reference = torch.optim.Adam(theirs, lr=0.3, fused=True)
    loss(theirs).backward()  # type: ignore[no-untyped-call]
    reference.step()
    stored = reference.state_dict()
    optimiser = adam(parameters(), lr=0.1)
    optimiser.load_state_dict(stored)
    assert optimiser.state_dict().keys() == stored.keys()
    assert optimiser.state_dict()["param_groups"] == stored["param_groups"]
    for number, moments in stored["state"].items():
        for name, value in moments.items():
            assert torch.equal(optimiser.state_dict()["state"][number][name], value)


def test_pytorchs_compiler_is_not_imported() -> None:
    """It would take more than a second of every command that learns."""
    code = (
        "import sys, torch\n"
        "from rotta.adapters.adam import adam, descend\n"
        "held = torch.nn.Parameter(torch.ones(2))\n"
        "optimiser = adam([held], lr=0.1)\n"
        "descend(held.square().sum(), optimiser)\n"
        "optimiser.load_state_dict(optimiser.state_dict())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
