"""What a pool runs: predictions and updates of many streams in a few passes."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rotta.adapters.unlearnt import followed, steps_to_follow
from rotta.guard import Guard
from rotta.pool.banks import Banks
from rotta.pool.guarded import GuardedStream
from rotta.pool.lessons import by_shape, interleaved, lesson_of, newcomers_of, until_updates
from rotta.pool.network import PooledNetwork
from rotta.pool.numbers import Numbers
from rotta.pool.options import Options
from rotta.pool.passes import Passes
from rotta.pool.predicted import Pass, Predicted
from rotta.pool.sent import sent
from rotta.pool.stream import Record, Stream
from rotta.pool.stream_state import StreamState

_PREDICTED_AT_ONCE, _LEARNT_AT_ONCE = 256, 64  # images; a CPU gains nothing by more
_PREDICTED_ON_CUDA = 4096
_LEARNT_ON_CUDA = 1  # one bank by itself: replayed as recorded, it is sooner done than launched


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
        self._passes = Passes(self._network, self.numbers, options)
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
        self.banks.put(stream.row, state.bank, self._device)  # first: there may be no memory for it
        self.numbers.of(stream.row).copy_(state.numbers)
        stream.generator.set_state(state.generator)
        if stream.guard is not None and state.guard is not None:
            stream.guard.load(state.guard)
        stream.record = state.record

    @torch.no_grad()
    def predict(self, rows: Sequence[int], x: Tensor, sizes: Sequence[int]) -> Pass:
        """What teachers say, in one pass.

        Args:
            rows: Of each stream.
            x: Images, (ΣB, C, H, W), stream after stream.
            sizes: B of each stream.
        """
        logits = self._logits(x, sizes, rows, self._passes.taught)
        return Pass(x, logits, guarded=self._options.guard)

    @property
    def updates_at_once(self) -> int:
        """How many streams with a full bank go through the network together."""
        return max(1, self._learnt_at_once // self._options.capacity)

    def updates_due(self, lesson: Predicted) -> int:
        """How many updates a stream will do when it learns this."""
        seen, every = lesson.stream.record.samples, self._options.update_every
        return (seen + lesson.size) // every - seen // every

    @torch.no_grad()
    def learn(self, lessons: Sequence[Predicted]) -> list[Stream]:
        """Fill banks and update, as each stream's own RoTTA would.

        Args:
            lessons: Of different streams.

        Returns:
            The streams that were updated at least once, or that their guards have news of.
        """
        before = [(lesson.stream, lesson.stream.events) for lesson in lessons]
        lessons = [
            lesson
            for lesson in lessons
            if self._may_learn(lesson.stream) and lesson.is_worth_learning()
        ]
        updated = [stream for alike in by_shape(lessons) for stream in self._fill_and_update(alike)]
        self._guard(lessons)
        if self._options.reset_every is not None:
            for lesson in lessons:
                self._start_over_if_due(lesson, self._options.reset_every)
        news = [stream for stream, events in before if stream.events is not events]
        return list({stream.row: stream for stream in (*updated, *news)}.values())

    @torch.no_grad()
    def settle(self, stream: Stream) -> None:
        """Let a stream's guard act on what it has seen last: it will not be asked as usual."""
        if stream.guard is not None:
            stream.guard.settle(self._guarded(stream))

    def _fill_and_update(self, lessons: Sequence[Predicted]) -> list[Stream]:
        """Part by part: an update may be due in the middle of a request."""
        streams = [lesson.stream for lesson in lessons]
        newcomers, every = newcomers_of(lessons), self._options.update_every
        seen = np.array([stream.record.samples for stream in streams])
        shape = tuple(newcomers.images.shape[1:])
        for lesson in lessons:
            lesson.stream.record.samples += lesson.size
            lesson.stream.record.shape = shape
        updated: dict[int, Stream] = {}
        for part, which in until_updates(newcomers, seen, every):
            self.banks.insert(part)
            due = [streams[i] for i in which.tolist()]
            self._update(due)
            updated |= {stream.row: stream for stream in due}
        return list(updated.values())

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
        self._passes.update(*lesson_of(streams, self.banks, self._options.lr, self._device))
        self._follow(streams)
        for stream in streams:
            stream.record.steps += 1
            stream.record.updates += 1

    def _follow(self, streams: Sequence[Stream]) -> None:
        """Let what guards compare with keep up; those together that show as many images."""
        alike: dict[tuple[int, torch.Size], list[tuple[int, Tensor]]] = defaultdict(list)
        for stream in streams:
            steps = _steps_to_follow(stream)
            if steps:
                weak = followed(self.banks.images(stream.row), stream.record.updates, steps)
                alike[steps, weak.shape].append((stream.row, weak))
        for (steps, _), together in alike.items():
            rows = sent(torch.tensor([row for row, _ in together]), self._device)
            weak = interleaved(torch.stack([images for _, images in together]))
            self._passes.follow(rows, weak, steps)

    def _may_learn(self, stream: Stream) -> bool:
        return stream.guard is None or stream.guard.may_learn(self._guarded(stream))

    def _guard(self, lessons: Sequence[Predicted]) -> None:
        """Let each stream's guard look; what they compare with is predicted in one pass."""
        unlearnt: dict[int, Tensor] = {}
        for alike in by_shape([lesson for lesson in lessons if _is_due(lesson.stream)]):
            images = torch.cat([lesson.images for lesson in alike])
            rows, sizes = [each.stream.row for each in alike], [each.size for each in alike]
            logits = self._logits(images, sizes, rows, self._passes.unlearnt)
            unlearnt |= zip(rows, torch.split(logits, sizes), strict=True)
        for lesson in lessons:
            if lesson.stream.guard is not None:
                reference = unlearnt.get(lesson.stream.row)
                logits = lesson.kept_on_host if reference is None else lesson.kept
                guarded = self._guarded(lesson.stream, reference)
                lesson.stream.guard.look(guarded, lesson.images, logits)

    def _start_over_if_due(self, lesson: Predicted, every: int) -> None:
        record = lesson.stream.record
        record.since_start += lesson.size
        if record.since_start >= every:
            record.since_start %= every
            self.settle(lesson.stream)  # what its guard saw is of what is forgotten now
            self._guarded(lesson.stream).put_back(None)

    def _guarded(self, stream: Stream, unlearnt: Tensor | None = None) -> GuardedStream:
        return GuardedStream(stream, self.numbers, self.banks, unlearnt)

    def _logits(
        self,
        x: Tensor,
        sizes: Sequence[int],
        rows: Sequence[int],
        by: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        """Logits for images, (ΣB, C, H, W), B of them by the numbers of each row."""
        of_images = sent(torch.from_numpy(np.repeat(rows, sizes)), self._device)
        at_once = self._predicted_at_once
        if len(x) <= at_once:
            return by(x, of_images)
        parts = zip(torch.split(x, at_once), torch.split(of_images, at_once), strict=True)
        return torch.cat([by(some, of) for some, of in parts])


def _steps_to_follow(stream: Stream) -> int:
    if stream.guard is None:
        return 0
    return steps_to_follow(stream.record.updates, doubt=stream.guard.in_doubt)


def _is_due(stream: Stream) -> bool:
    return stream.guard is not None and stream.guard.is_due
