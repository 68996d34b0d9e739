from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch

from rotta.datasets.base import Indices, Labels
from rotta.models import build, error_rate, train
from rotta.models.train import learning_rate


@dataclass
class Stripes:
    """Noisy images with horizontal (0) or vertical (1) stripes."""

    labels: Labels

    def images(self, indices: Indices) -> torch.Tensor:
        noise = np.random.default_rng(0).integers(0, 60, (len(self.labels), 3, 16, 16))
        lines = np.where(np.arange(16) % 4 < 2, 0, 180)
        vertical = np.broadcast_to(lines, (16, 16))
        signal = np.where(self.labels[:, None, None] == 1, vertical, vertical.T)[:, None]
        return torch.from_numpy((noise + signal).astype(np.uint8)[indices])


@dataclass
class StripesDataset:
    name: str = "stripes"
    classes: tuple[str, ...] = ("horizontal", "vertical")
    domains: tuple[str, ...] = ("clean",)
    mirrored: bool = True
    provenance: Mapping[str, str] = field(default_factory=dict)
    images: int = 44

    def domain(self, name: str, severity: int = 5) -> Stripes:
        assert name in self.domains
        return Stripes(np.arange(self.images) % 2)


def _weights(seed: int = 0, **settings: object) -> tuple[dict[str, torch.Tensor], list[float]]:
    model = build("wrn-10-1", 2)
    options: dict[str, object] = {"epochs": 3, "batch_size": 8, "lr": 0.05, **settings}
    losses = train(model, StripesDataset(), seed=seed, **options)  # type: ignore[arg-type]
    return model.state_dict(), losses


def _equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_training_learns_and_ends_in_evaluation_mode() -> None:
    data = StripesDataset()
    model = build("wrn-10-1", 2)
    losses = train(model, data, epochs=4, batch_size=8, lr=0.05)
    assert not model.training
    assert losses[-1] < 0.3 < losses[0]
    assert error_rate(model, data.domain("clean")) == 0.0


def test_the_seed_decides() -> None:
    first, _ = _weights(epochs=1)
    assert _equal(first, _weights(epochs=1)[0])
    assert not _equal(first, _weights(epochs=1, seed=1)[0])


def test_a_killed_training_continues_to_the_same_bits(tmp_path: Path) -> None:
    whole, whole_losses = _weights()

    def kill_in_the_second_epoch(done: int, total: int) -> None:
        assert total == 15
        if done == 8:
            raise KeyboardInterrupt

    file = tmp_path / "training.pt"
    with pytest.raises(KeyboardInterrupt):
        _weights(checkpoint=file, progress=kill_in_the_second_epoch)
    assert [path.name for path in tmp_path.iterdir()] == ["training.pt"]

    steps: list[int] = []
    resumed, losses = _weights(checkpoint=file, progress=lambda done, _: steps.append(done))
    assert steps == list(range(6, 16))
    assert losses == whole_losses
    assert _equal(resumed, whole)


def test_a_finished_training_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "training.pt"
    first, losses = _weights(epochs=1, checkpoint=file)
    steps: list[int] = []
    again, again_losses = _weights(
        epochs=1, checkpoint=file, progress=lambda done, _: steps.append(done)
    )
    assert steps == []
    assert _equal(first, again)
    assert losses == again_losses


def test_the_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "training.pt"
    _weights(epochs=1, checkpoint=file)
    with pytest.raises(ValueError, match=r"another training \(epochs was 1, lr was 0.05\)"):
        _weights(epochs=2, lr=0.1, checkpoint=file)


@pytest.mark.parametrize("content", [b"", b"no checkpoint"])
def test_a_foreign_checkpoint_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "training.pt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="no checkpoint of a training"):
        _weights(checkpoint=file)
    assert file.read_bytes() == content


def test_label_smoothing_reaches_the_loss() -> None:
    _, plain = _weights(epochs=1)
    _, smooth = _weights(epochs=1, label_smoothing=0.5)
    assert plain != smooth


def test_a_set_smaller_than_a_batch_is_one_batch() -> None:
    steps: list[tuple[int, int]] = []
    model = build("wrn-10-1", 2)
    train(
        model,
        StripesDataset(images=6),
        epochs=2,
        batch_size=64,
        progress=lambda *step: steps.append(step),
    )
    assert steps == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("dataset", "settings", "message"),
    [
        (StripesDataset(classes=("a", "b", "c")), {}, "build it with num_classes=3"),
        (StripesDataset(domains=("x", "y")), {}, "say which to train on: x, y"),
        (StripesDataset(images=1), {}, "too few"),
        (StripesDataset(), {"epochs": 0}, "epochs ≥ 1"),
        (StripesDataset(), {"batch_size": 1}, "batch_size ≥ 2"),
        (StripesDataset(), {"lr": 1e9}, "lower lr"),
    ],
)
def test_what_cannot_work_is_refused(
    dataset: StripesDataset, settings: dict[str, float], message: str
) -> None:
    options: dict[str, float] = {"epochs": 2, "batch_size": 8, **settings}
    with pytest.raises(ValueError, match=message):
        train(build("wrn-10-1", 2), dataset, **options)  # type: ignore[arg-type]


def test_one_of_several_domains_can_be_chosen() -> None:
    losses = train(
        build("wrn-10-1", 2), StripesDataset(domains=("x", "y")), domain="y", epochs=1, batch_size=8
    )
    assert len(losses) == 1


def test_learning_rate_rises_then_falls_to_zero() -> None:
    rates = [learning_rate(step, 200, peak=0.1) for step in range(200)]
    peak = rates.index(max(rates))
    assert 9 <= peak <= 10
    assert max(rates) == pytest.approx(0.1)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] < 1e-4


def test_error_rate_counts_every_image_once_and_puts_the_mode_back() -> None:
    class Constant(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.max() <= 1
            assert not self.training
            return torch.tensor([[0.0, 1.0]]).expand(len(x), 2)

    model = Constant()
    images = Stripes(np.array([0, 1, 1, 1, 1, 0, 0]))
    seen: list[tuple[int, int]] = []
    rate = error_rate(model, images, batch_size=3, progress=lambda *step: seen.append(step))
    assert rate == pytest.approx(100 * 3 / 7)
    assert seen == [(3, 7), (6, 7), (7, 7)]
    assert model.training


def test_error_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        error_rate(torch.nn.Identity(), Stripes(np.array([], np.int64)))


def test_every_setting_reaches_the_training() -> None:
    plain, _ = _weights(epochs=1)
    for setting in (
        {"weight_decay": 0.0},
        {"label_smoothing": 0.2},
        {"lr": 0.02},
        {"batch_size": 4},
    ):
        assert not _equal(plain, _weights(epochs=1, **setting)[0]), setting


def test_only_a_dataset_that_allows_it_is_mirrored() -> None:
    weights = []
    for mirrored in (True, False):
        model = build("wrn-10-1", 2)
        train(model, StripesDataset(mirrored=mirrored), epochs=1, batch_size=8, lr=0.05)
        weights.append(model.state_dict())
    assert not _equal(*weights)


def test_another_start_is_another_training(tmp_path: Path) -> None:
    file = tmp_path / "a.training"
    train(build("wrn-10-1", 2), StripesDataset(), epochs=1, batch_size=8, checkpoint=file)
    with pytest.raises(ValueError, match="start was"):
        train(
            build("wrn-10-1", 2, seed=1), StripesDataset(), epochs=1, batch_size=8, checkpoint=file
        )
