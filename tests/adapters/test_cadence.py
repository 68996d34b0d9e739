"""Updates fall after every so many samples, however batches are cut."""

from hypothesis import given
from hypothesis import strategies as st

from rotta.adapters.cadence import cadence


@given(sizes=st.lists(st.integers(0, 50), max_size=15), every=st.integers(1, 40))
def test_every_so_many_samples_whatever_the_batches(sizes: list[int], every: int) -> None:
    seen, updates = 0, []
    for size in sizes:
        covered = 0
        for part, due in cadence(seen, size, every):
            assert part.start == covered < part.stop  # in order, nothing twice, nothing empty
            covered = part.stop
            if due:
                updates.append(seen + covered)
        assert covered == size
        seen += size
    assert updates == list(range(every, seen + 1, every))
