"""Random numbers made on the device, whose whole state is one generator on the CPU."""

import torch


def device_generator(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """A generator on ``device``, seeded by one draw of ``generator``, which is on the CPU.

    So a method has one random state to save, and a state saved on one device loads on another.

    Example:
        >>> draws = [device_generator(torch.Generator().manual_seed(0), torch.device("cpu"))]
        >>> draws += [device_generator(torch.Generator().manual_seed(0), torch.device("cpu"))]
        >>> torch.equal(*(torch.rand(3, generator=each) for each in draws))
        True
    """
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    return torch.Generator(device).manual_seed(seed)
