"""Samples whose image is their name, so that a bank's contents can be read off."""

import torch

from rotta.memory.bank import Bank


def images_of(names: list[int]) -> torch.Tensor:
    return torch.tensor(names, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 3, 1, 1)


def present(bank: Bank, names: list[int], labels: list[int], entropies: list[float]) -> None:
    """Insert them as one batch, on the bank's device."""
    device = bank.label.device
    bank.insert(
        images_of(names).to(device),
        torch.tensor(labels, device=device),
        torch.tensor(entropies, dtype=torch.float64, device=device),
    )


def contents(bank: Bank) -> set[tuple[int, int, int]]:
    """(name, label, age) of all that it holds."""
    size = bank.size()
    names = bank.images[:size, 0, 0, 0].round().long().tolist() if size else []
    labels, ages = bank.label[:size].tolist(), bank.age[:size].tolist()
    return set(zip(names, labels, ages, strict=True))
