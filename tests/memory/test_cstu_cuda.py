"""The kernels do what the host does, and hold what Algorithm 1 holds.

They need a GPU, or Triton's interpreter.
"""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_cstu import PlainCSTU
from presenting import contents, images_of, present
from torch import Tensor

from cuda_kernels import DEVICE, INTERPRETED, ON_A_GPU, for_cuda, on_a_gpu, without_a_gpu
from rotta.memory import cstu_cuda
from rotta.memory.cstu import CSTU

pytestmark = list(for_cuda)

CAPACITIES = [4, 64, 100]
CLASSES = [1, 2, 10, 100]
SIZES = [(capacity, num_classes) for capacity in CAPACITIES for num_classes in CLASSES]
ENTROPIES = [0.0, 0.1, 0.5, 1.0, 1.7]  # few, so that scores tie
BATCHES = [1, 7, 16, 64, 130] if ON_A_GPU else [7, 130]  # the interpreter is slow

Samples = list[tuple[int, float]]


@pytest.fixture(scope="module", autouse=True)
def _some_banks_are_the_kernels() -> Iterator[None]:
    """Interpreted, they decide for the banks that :func:`filled_by_kernels` marks."""
    with without_a_gpu() as patch:
        if INTERPRETED:
            patch.setattr(cstu_cuda, "usable", lambda like: hasattr(like, "for_kernels"))
        yield


def filled_by_kernels(bank: CSTU) -> CSTU:
    bank = bank.to(DEVICE)
    bank.label.for_kernels = True  # type: ignore[attr-defined]
    assert cstu_cuda.usable(bank.label)
    return bank


def beside(capacity: int, num_classes: int, **weights: float) -> tuple[CSTU, CSTU]:
    """The same empty bank, filled by the kernels and by the host."""
    by_kernels = filled_by_kernels(CSTU(capacity, num_classes, **weights))
    return by_kernels, CSTU(capacity, num_classes, **weights)


def assert_same_banks(by_kernels: CSTU, on_host: CSTU) -> None:
    """Place by place, not only as sets."""
    theirs = on_host.state_dict()
    for name, tensor in by_kernels.state_dict().items():
        assert torch.equal(tensor.cpu(), theirs[name]), name


def assert_same_course(samples: Samples, capacity: int, num_classes: int, batch: int) -> None:
    by_kernels, on_host = beside(capacity, num_classes)
    plain = PlainCSTU(capacity, num_classes)
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        names = list(range(start, start + len(part)))
        labels, entropies = [label for label, _ in part], [entropy for _, entropy in part]
        present(by_kernels, names, labels, entropies)
        present(on_host, names, labels, entropies)
        for name, label, entropy in zip(names, labels, entropies, strict=True):
            plain.insert(name, label, entropy)
        assert_same_banks(by_kernels, on_host)
        assert contents(by_kernels) == plain.contents()


@pytest.mark.parametrize(("capacity", "num_classes"), SIZES)
@pytest.mark.parametrize("batch", BATCHES)
def test_random_samples(capacity: int, num_classes: int, batch: int) -> None:
    draws = torch.Generator().manual_seed(batch)
    label = torch.randint(num_classes, (400,), generator=draws).tolist()
    entropy = torch.rand(400, generator=draws, dtype=torch.float64).tolist()
    samples = list(zip(label, entropy, strict=True))
    assert_same_course(samples, capacity, num_classes, batch)


def one_class_then_all(num_classes: int) -> Samples:
    """The bank fills with one class, which then has to give way."""
    return [(0, 0.5)] * 150 + [(i % num_classes, 0.5) for i in range(250)]


def long_stays(num_classes: int) -> Samples:
    return [(i // 37 % num_classes, ENTROPIES[i % 5]) for i in range(400)]


def all_alike(num_classes: int) -> Samples:
    return [(num_classes - 1, 0.0)] * 300


def ever_less_certain(num_classes: int) -> Samples:
    """Each newcomer scores worse than those held, until they are old."""
    return [(i % num_classes, i / 100) for i in range(400)]


def ever_more_certain(num_classes: int) -> Samples:
    return [(i * 7 % num_classes, 4 - i / 100) for i in range(400)]


@pytest.mark.parametrize(("capacity", "num_classes"), SIZES)
@pytest.mark.parametrize(
    "adversary",
    [one_class_then_all, long_stays, all_alike, ever_less_certain, ever_more_certain],
    ids=lambda adversary: adversary.__name__,
)
def test_adversarial_samples(
    adversary: Callable[[int], Samples], capacity: int, num_classes: int
) -> None:
    assert_same_course(adversary(num_classes), capacity, num_classes, batch=64)


@given(
    samples=st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from(ENTROPIES)), min_size=1, max_size=160
    ),
    size=st.sampled_from(SIZES),
    # at most four classes come, whatever C is: they fill up
    coming=st.sampled_from([1, 2, 4, 100]),
    batch=st.sampled_from(BATCHES),
)
@settings(max_examples=300 if ON_A_GPU else 40)
def test_any_samples(samples: Samples, size: tuple[int, int], coming: int, batch: int) -> None:
    capacity, num_classes = size
    samples = [(label % coming % num_classes, entropy) for label, entropy in samples]
    assert_same_course(samples, capacity, num_classes, batch)


@pytest.mark.parametrize(("lambda_t", "lambda_u"), [(0.0, 1.0), (1.0, 0.0), (0.1, 3.0), (0.0, 0.0)])
def test_the_weights_of_the_score(lambda_t: float, lambda_u: float) -> None:
    """Without timeliness or uncertainty whole classes tie; 0.1 is not a float32 number."""
    by_kernels, on_host = beside(64, 10, lambda_t=lambda_t, lambda_u=lambda_u)
    draws = torch.Generator().manual_seed(3)
    for start in range(0, 640, 64):
        label = torch.randint(10, (64,), generator=draws).tolist()
        entropies = [ENTROPIES[i] for i in torch.randint(5, (64,), generator=draws).tolist()]
        for bank in (by_kernels, on_host):
            present(bank, list(range(start, start + 64)), label, entropies)
        assert_same_banks(by_kernels, on_host)


def any_state(capacity: int, num_classes: int, held: int, seed: int) -> dict[str, Tensor]:
    """A bank with ``held`` places filled by any classes at any time: also what no stream gives."""
    draws = torch.Generator().manual_seed(seed)
    label = torch.randint(num_classes, (capacity,), generator=draws)
    label[held:] = -1
    return {
        "images": torch.rand(capacity, 3, 4, 4, generator=draws),
        "label": label,
        "arrived": torch.randperm(5000, generator=draws)[:capacity],
        "clock": torch.tensor(5000),
        "uncertainty": torch.rand(capacity, generator=draws, dtype=torch.float64),
    }


@pytest.mark.parametrize(
    ("capacity", "num_classes"), [*SIZES, (64, 10_000), (4096, 10), (4096, 1000), (4096, 10_000)]
)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_inserting_into_any_state(capacity: int, num_classes: int, share: float) -> None:
    for seed in range(5 if ON_A_GPU else 1):
        state = any_state(capacity, num_classes, int(share * capacity), seed)
        draws = torch.Generator().manual_seed(seed)
        x = torch.rand(64, 3, 4, 4, generator=draws)
        label = torch.randint(num_classes, (64,), generator=draws)
        entropy = torch.rand(64, generator=draws)
        by_kernels, on_host = beside(capacity, num_classes)
        for bank in (by_kernels, on_host):
            device = bank.label.device
            bank.load_state_dict(state)
            bank.insert(x.to(device), label.to(device), entropy.to(device))
        assert_same_banks(by_kernels, on_host)


@pytest.mark.parametrize("no_number", [math.nan, math.inf, -math.inf])
def test_entropies_that_are_no_number(no_number: float) -> None:
    by_kernels, on_host = beside(16, 4)
    for start in (0, 40, 80):
        names = list(range(start, start + 40))
        entropies = [no_number if i % 9 == 0 else i % 5 / 5 for i in names]
        for bank in (by_kernels, on_host):
            present(bank, names, [i % 4 for i in names], entropies)
        assert_same_banks(by_kernels, on_host)


@pytest.mark.parametrize("stored", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("given", [torch.contiguous_format, torch.channels_last])
def test_images_in_any_layout(stored: torch.memory_format, given: torch.memory_format) -> None:
    """Larger than what one program moves, and not a multiple of it."""
    by_kernels, on_host = beside(16, 4)
    draws = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.rand(20, 3, 33, 29, generator=draws)
        label = torch.randint(4, (20,), generator=draws)
        entropy = torch.rand(20, generator=draws)
        on_host.insert(x, label, entropy)
        there = x.to(DEVICE).contiguous(memory_format=given)
        by_kernels.insert(there, label.to(DEVICE), entropy.to(DEVICE))
        by_kernels.images = by_kernels.images.contiguous(memory_format=stored)
        assert_same_banks(by_kernels, on_host)


def test_ages_beyond_a_thousand_still_count() -> None:
    """In float32 the ages 1,200 and 1,300 would score alike, and the later one would go."""
    bank, _ = beside(64, 1)
    present(bank, list(range(64)), [0] * 64, [0.0] * 64)
    bank.clock.fill_(1300)
    bank.arrived.fill_(100)
    bank.arrived[5] = 0
    present(bank, [64], [0], [0.0])
    assert {name for name, _, _ in contents(bank)} == set(range(65)) - {5}


@pytest.mark.parametrize("capacity", [1, 33, 4096])
def test_other_sizes_of_the_bank(capacity: int) -> None:
    by_kernels, on_host = beside(capacity, 3)
    for start in (0, 300, 600):
        names = list(range(start, start + 300))
        for bank in (by_kernels, on_host):
            present(bank, names, [i // 5 % 3 for i in names], [i % 11 / 11 for i in names])
        assert_same_banks(by_kernels, on_host)


@on_a_gpu
def test_a_bank_too_large_for_the_kernel_is_left_to_the_host() -> None:
    bank, beside_it = CSTU(5000, 3).cuda(), CSTU(5000, 3)
    assert not cstu_cuda.usable(bank.label)
    for target in (bank, beside_it):
        present(target, list(range(200)), [i % 3 for i in range(200)], [0.5] * 200)
    assert_same_banks(bank, beside_it)


def test_views_with_gaps_are_read_aright() -> None:
    """Labels and entropies may be columns of a larger tensor, in single precision."""
    by_kernels, on_host = beside(16, 4)
    label = torch.arange(80).view(40, 2) % 4
    entropy = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    for bank in (by_kernels, on_host):
        device = bank.label.device
        bank.insert(
            images_of(list(range(40))).to(device),
            label.to(device)[:, 1],
            entropy.to(device)[:, 1],
        )
    assert_same_banks(by_kernels, on_host)


@pytest.fixture
def _no_waiting_for_the_gpu() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@on_a_gpu
@pytest.mark.usefixtures("_no_waiting_for_the_gpu")
def test_inserting_does_not_wait_for_the_gpu() -> None:
    bank, _ = beside(64, 10)
    x = torch.rand(64, 3, 8, 8, device="cuda")
    label = torch.arange(64, device="cuda") % 10
    bank.insert(x, label, x.mean((1, 2, 3)))  # compiles the kernel
    assert bank.size() == 64
    torch.cuda.set_sync_debug_mode("error")
    bank.insert(x, label, x.mean((1, 2, 3)))
    assert bank.size() == 64


@on_a_gpu
def test_a_cuda_graph_can_hold_it() -> None:
    """Replayed on other samples it does what inserting them does; the clock goes on."""
    by_kernels, on_host = beside(64, 10)
    x = torch.zeros(48, 3, 8, 8, device="cuda")
    label, entropy = x.new_zeros(48, dtype=torch.int64), x.new_zeros(48)
    by_kernels.insert(x, label, entropy)  # compiles the kernels, allocates the images
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        by_kernels.insert(x, label, entropy)
    by_kernels.load_state_dict({**CSTU(64, 10).state_dict(), "images": torch.zeros(64, 3, 8, 8)})
    draws = torch.Generator().manual_seed(0)
    for _ in range(6):
        x.copy_(torch.rand(x.shape, generator=draws))
        label.copy_(torch.randint(10, label.shape, generator=draws))
        entropy.copy_(torch.rand(48, generator=draws))
        graph.replay()
        on_host.insert(x.cpu(), label.cpu(), entropy.cpu())
        assert_same_banks(by_kernels, on_host)
    assert by_kernels.clock == 6 * 48
