"""What goes into a pool and what it tells."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rotta.guard import Event


@dataclass(frozen=True)
class Request:
    """Images of one stream, to be predicted and learnt from."""

    stream: str
    """Its name; whatever the caller tells streams apart by."""
    images: Tensor
    """(B, C, H, W), in [0, 1], in the dtype and on the device of the network; any B ≥ 1."""


@dataclass(frozen=True)
class Prediction:
    """The answer to one request: logits, or why there are none."""

    stream: str
    logits: Tensor | None
    """(B, num_classes), from before this request changed anything; None if it was refused."""
    error: Exception | None = None
    """A ``ValueError`` if the request was wrong, a :class:`~rotta.pool.StoreError` if the stream's
    state could not be fetched or another one's place not be freed. Nothing of the request was
    taken up then."""

    @property
    def served(self) -> bool:
        """Whether there are logits."""
        return self.logits is not None


@dataclass(frozen=True)
class BankContents:
    """What a stream's bank holds: copies, n of them, oldest place first."""

    images: Tensor
    """(n, C, H, W)."""
    labels: Tensor
    """Predicted classes, (n,)."""
    ages: Tensor
    """Samples presented since each came, (n,)."""
    uncertainties: Tensor
    """Entropies of their predictions, (n,)."""


@dataclass(frozen=True)
class StreamInfo:
    """How a stream is doing. All of it is plain values, for JSON."""

    name: str
    resident: bool
    """Whether it is in memory; the other fields are as of its last save if not."""
    frozen: bool
    requests: int
    """That were predicted, frozen or not."""
    samples: int
    """Images that it has seen, to learn from."""
    updates: int
    last_used: float
    """When it was last asked for a prediction, in seconds since 1970."""
    entropy: float | None
    """Mean over the last request, in nats."""
    lately: list[float]
    """How often each class was predicted, C numbers; a prediction counts half after 64 more."""
    bank_by_class: list[int]
    """How many samples of each class the bank holds, C numbers."""
    bank_ages: list[int]
    """Of what the bank holds."""
    statistics_distance: float
    """‖s − s₀‖ / ‖s₀‖, for the means and variances by which it predicts and those of the source."""
    parameter_distance: float
    """The same for γ and β."""
    rate: float
    """By which the guard multiplies its learning rate; 1 without a guard."""
    events: list[Event]
    """What the guard did, the newest last."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))
