"""The ring holds the last N samples, however they come."""

from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st
from presenting import contents, present

from rotta.memory.recent import Recent


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    capacity=st.sampled_from([1, 2, 5, 8]),
)
def test_it_is_the_end_of_a_list(sizes: list[int], capacity: int) -> None:
    bank = Recent(capacity)
    plain: list[tuple[int, int]] = []
    for size in sizes:
        names = list(range(len(plain), len(plain) + size))
        labels = [name % 7 for name in names]
        present(bank, names, labels, [0.0] * size)
        plain += list(zip(names, labels, strict=True))
        last = plain[-capacity:]
        assert contents(bank) == {(*sample, len(plain) - sample[0]) for sample in last}
        assert len(bank) == min(len(plain), capacity)


def test_batches_fill_the_places_that_single_samples_fill() -> None:
    together, apart = Recent(5), Recent(5)
    for names in ([0, 1, 2], [3, 4, 5, 6], [7]):
        present(together, names, names, [0.0] * len(names))
        for name in names:
            present(apart, [name], [name], [0.0])
        for field, tensor in together.state_dict().items():
            assert torch.equal(tensor, apart.state_dict()[field])


def test_its_state_is_complete(tmp_path: Path) -> None:
    bank, other = Recent(4), Recent(4)
    present(bank, [1, 2, 3], [0, 1, 1], [0.0] * 3)
    torch.save(bank.state_dict(), tmp_path / "bank.pt")
    other.load_state_dict(torch.load(tmp_path / "bank.pt", weights_only=True))
    for target in (bank, other):
        present(target, [4, 5, 6], [1, 2, 2], [0.0] * 3)
    assert contents(bank) == contents(other) == {(3, 1, 4), (4, 1, 3), (5, 2, 2), (6, 2, 1)}
