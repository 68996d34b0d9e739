"""Draws on a device, from one generator on the CPU."""

import torch

from rotta.nn.device_draws import device_generator

CPU = torch.device("cpu")


def draw(generator: torch.Generator) -> torch.Tensor:
    return torch.rand(4, generator=device_generator(generator, CPU))


def test_each_draw_moves_the_one_generator() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = draw(generator), draw(generator)
    assert not torch.equal(first, second)


def test_the_generators_state_is_all_there_is() -> None:
    generator = torch.Generator().manual_seed(0)
    draw(generator)
    state = generator.get_state()
    expected = draw(generator)
    torch.rand(1)  # the global one does not matter
    assert torch.equal(draw(torch.Generator().set_state(state)), expected)
