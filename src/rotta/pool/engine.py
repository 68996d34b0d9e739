"""What a pool runs: predictions and updates of many streams in a few passes."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

import torch
from torch import Tensor, nn

from rotta.adapters.cadence import cadence
from rotta.adapters.unlearnt import FOLLOW_EVERY, followed, share_of_many
from rotta.guard import Guard
from rotta.nn.augment import drawn_strong_views
from rotta.pool.banks import Banks, Newcomers
from rotta.pool.guarded import GuardedStream
from rotta.pool.network import PooledNetwork
from rotta.pool.numbers import Numbers
from rotta.pool.options import Options
from rotta.pool.predicted import Predicted, Seen, by_shape
from rotta.pool.stream import Record, Stream
from rotta.pool.stream_state import StreamState
from rotta.pool.update import Lesson, follow, update

_PREDICTED_AT_ONCE, _LEARNT_AT_ONCE = 256, 64  # images; a CPU gains nothing by more
_PREDICTED_ON_CUDA, _LEARNT_ON_CUDA = 4096, 1024

T = TypeVar("T")


class Engine:
    """The streams in memory, all in the same tables.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        num_classes: C.
        options: RoTTA's.

    Attributes:
        numbers: What adapting changes in the network, for each stream.
        banks: What each stream learns from.
        channels: ΣC, over the layers of the network.
    """

    def __init__(self, net: nn.Module, num_classes: int, options: Options) -> None:
        self._options = options
        self._num_classes = num_classes
        self._network = PooledNetwork(net, num_classes)
        self.numbers = Numbers(self._network.source)
        self.banks = Banks(
            options.capacity, num_classes, lambda_t=options.lambda_t, lambda_u=options.lambda_u
        )
        self.channels = self._network.source.shape[1]
        self._device = self._network.source.device
        on_cuda = self._device.type == "cuda"
        self._predicted_at_once = _PREDICTED_ON_CUDA if on_cuda else _PREDICTED_AT_ONCE
        self._learnt_at_once = _LEARNT_ON_CUDA if on_cuda else _LEARNT_AT_ONCE

    def new(self, seed: int) -> Stream:
        """A stream at its start."""
        row = self.numbers.take()
        self.banks.open(row)
        return Stream(
            row=row,
            generator=torch.Generator().manual_seed(seed),
            guard=Guard() if self._options.guard else None,
            record=Record(counts=[0.0] * self._num_classes),
        )

    def drop(self, stream: Stream) -> None:
        """Free its place."""
        self.banks.clear(stream.row)
        self.numbers.give_back(stream.row)

    def state(self, stream: Stream) -> StreamState:
        """All of a stream; tensors are views, to be read at once."""
        return StreamState(
            numbers=self.numbers.of(stream.row),
            bank=self.banks.held(stream.row),
            generator=stream.generator.get_state(),
            guard=None if stream.guard is None else stream.guard.state(),
            record=stream.record,
        )

    def load(self, stream: Stream, state: StreamState) -> None:
        """Put a stream into another's state."""
        self.numbers.of(stream.row).copy_(state.numbers)
        self.banks.put(stream.row, state.bank, self._device)
        stream.generator.set_state(state.generator)
        if stream.guard is not None and state.guard is not None:
            stream.guard.load(state.guard)
        stream.record = state.record

    @torch.no_grad()
    def predict(
        self, streams: Sequence[Stream], x: Tensor, sizes: Sequence[int]
    ) -> list[Predicted]:
        """What each stream's teacher says of its images, in one pass.

        Args:
            streams: Each once.
            x: Images, (ΣB, C, H, W), stream after stream.
            sizes: B of each stream.
        """
        rows = [stream.row for stream in streams]
        logits = self._logits(x, sizes, rows, self.numbers.of_teachers)
        kept = logits.clone() if self._options.guard else logits
        seen = Seen(logits)
        ends = list(accumulate(sizes))
        parts = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        return [
            Predicted(stream, x[part], logits[part], kept[part], seen, part)
            for stream, part in zip(streams, parts, strict=True)
        ]

    @property
    def updates_at_once(self) -> int:
        """How many streams with a full bank go through the network together."""
        return max(1, self._learnt_at_once // self._options.capacity)

    def updates_due(self, lesson: Predicted) -> int:
        """How many updates a stream will do when it learns this."""
        seen, every = lesson.stream.record.samples, self._options.update_every
        return (seen + len(lesson.images)) // every - seen // every

    @torch.no_grad()
    def learn(self, lessons: Sequence[Predicted]) -> list[Stream]:
        """Fill banks and update, as each stream's own RoTTA would.

        Args:
            lessons: Of different streams.

        Returns:
            The streams that were updated at least once.
        """
        lessons = [lesson for lesson in lessons if self._may_learn(lesson.stream)]
        updated = self._fill_and_update(lessons)
        self._guard(lessons)
        if self._options.reset_every is not None:
            for lesson in lessons:
                self._start_over_if_due(lesson, self._options.reset_every)
        return updated

    def _fill_and_update(self, lessons: Sequence[Predicted]) -> list[Stream]:
        """Part by part: an update may be due in the middle of a request."""
        updated: dict[int, Stream] = {}
        for turn in _turns([list(self._parts(lesson)) for lesson in lessons]):
            self.banks.insert([newcomers for _, newcomers, _ in turn])
            for stream, newcomers, _ in turn:
                stream.record.samples += len(newcomers)
                stream.record.shape = tuple(newcomers.images.shape[1:])
            due = [stream for stream, _, update_is_due in turn if update_is_due]
            self._update(due)
            updated |= {stream.row: stream for stream in due}
        return list(updated.values())

    def _parts(self, lesson: Predicted) -> Iterator[tuple[Stream, Newcomers, bool]]:
        """What arrives between updates, and whether one is due then."""
        stream, every = lesson.stream, self._options.update_every
        whole = Newcomers(stream.row, lesson.images, lesson.label, lesson.uncertainty)
        for part, update_is_due in cadence(stream.record.samples, len(whole), every):
            yield stream, whole.part(part), update_is_due

    def _update(self, streams: Sequence[Stream]) -> None:
        """One step for each: for those together whose banks are of one size and shape."""
        alike: dict[tuple[int, torch.Size], list[Stream]] = defaultdict(list)
        for stream in streams:
            held = self.banks.images(stream.row)
            alike[len(held), held.shape[1:]].append(stream)
        for (size, _), together in alike.items():
            at_once = max(1, self._learnt_at_once // size)
            for start in range(0, len(together), at_once):
                self._step(together[start : start + at_once])

    def _step(self, streams: Sequence[Stream]) -> None:
        rows = [stream.row for stream in streams]
        weak = [self.banks.images(row) for row in rows]
        strong = [
            view
            for images, stream in zip(weak, streams, strict=True)
            for view in drawn_strong_views(images, stream.generator)
        ]
        lesson = Lesson(
            weak=_interleaved(weak),
            strong=_interleaved(strong),
            weight=self.banks.weights(rows).to(weak[0]).flatten(),
            rows=self._there(rows, torch.int64),
            steps=self._there([stream.record.steps + 1 for stream in streams], torch.float64),
            rates=self._there(
                [stream.record.rate * self._options.lr for stream in streams], torch.float32
            ),
        )
        alpha, nu = self._options.alpha, self._options.nu
        update(self._network, self.numbers, lesson, alpha=alpha, nu=nu)
        self._follow([stream for stream in streams if _follows_now(stream)])
        for stream in streams:
            stream.record.steps += 1
            stream.record.updates += 1

    def _follow(self, streams: Sequence[Stream]) -> None:
        """Let what guards compare with keep up; those together that show as many images."""
        alpha = share_of_many(self._options.alpha, FOLLOW_EVERY)
        alike: dict[torch.Size, list[tuple[int, Tensor]]] = defaultdict(list)
        for stream in streams:
            weak = followed(self.banks.images(stream.row), stream.record.updates)
            alike[weak.shape].append((stream.row, weak))
        for together in alike.values():
            rows = self._there([row for row, _ in together], torch.int64)
            weak = _interleaved([images for _, images in together])
            follow(self._network, self.numbers, weak, rows, alpha=alpha)

    def _may_learn(self, stream: Stream) -> bool:
        return stream.guard is None or stream.guard.may_learn(self._guarded(stream))

    def _guard(self, lessons: Sequence[Predicted]) -> None:
        """Let each stream's guard look; what they compare with is predicted in one pass."""
        unlearnt: dict[int, Tensor] = {}
        for alike in by_shape([lesson for lesson in lessons if _is_due(lesson.stream)]):
            images = [lesson.images for lesson in alike]
            rows, sizes = [lesson.stream.row for lesson in alike], [len(x) for x in images]
            logits = self._logits(torch.cat(images), sizes, rows, self.numbers.of_unlearnt)
            unlearnt |= zip(rows, torch.split(logits, sizes), strict=True)
        for lesson in lessons:
            if lesson.stream.guard is not None:
                guarded = self._guarded(lesson.stream, unlearnt.get(lesson.stream.row))
                lesson.stream.guard.look(guarded, lesson.images, lesson.kept)

    def _start_over_if_due(self, lesson: Predicted, every: int) -> None:
        record = lesson.stream.record
        record.since_start += len(lesson.images)
        if record.since_start >= every:
            record.since_start %= every
            self._guarded(lesson.stream).put_back(None)

    def _guarded(self, stream: Stream, unlearnt: Tensor | None = None) -> GuardedStream:
        return GuardedStream(stream, self.numbers, self.banks, unlearnt)

    def _logits(
        self,
        x: Tensor,
        sizes: Sequence[int],
        rows: Sequence[int],
        numbers_of: Callable[[Tensor], tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Logits for images, (ΣB, C, H, W), B of them by the numbers of each row."""
        of_images = torch.tensor(rows).repeat_interleave(torch.tensor(sizes)).to(self._device)
        at_once = self._predicted_at_once
        parts = zip(torch.split(x, at_once), torch.split(of_images, at_once), strict=True)
        return torch.cat([self._network.logits(some, *numbers_of(of)) for some, of in parts])

    def _there(self, values: Sequence[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).to(self._device)


def _follows_now(stream: Stream) -> bool:
    return stream.guard is not None and stream.record.updates % FOLLOW_EVERY == 0


def _is_due(stream: Stream) -> bool:
    return stream.guard is not None and stream.guard.is_due


def _interleaved(images: Sequence[Tensor]) -> Tensor:
    """(N, C, H, W) of each of G streams, as (N·G, C, H, W): one of every stream, the next, …"""
    return torch.stack(list(images), dim=1).flatten(0, 1)


def _turns(queues: list[list[T]]) -> Iterator[list[T]]:
    """The first of each queue, then the second of each that has one, and so on."""
    for turn in range(max(map(len, queues), default=0)):
        yield [queue[turn] for queue in queues if len(queue) > turn]
