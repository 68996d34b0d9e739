"""Requests: which can be served, what is predicted for them, and what is learnt from them."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from rotta.adapters.input_check import BadInputError, PixelRange, check_form
from rotta.pool.engine import Engine
from rotta.pool.numbers import SOURCE
from rotta.pool.predicted import Pass, Predicted
from rotta.pool.records import Prediction, Request
from rotta.pool.residents import Residents
from rotta.pool.store import StoreError
from rotta.pool.stream import Stream

Answers = dict[str, Prediction]
"""By stream."""
Asked = tuple[Request, Stream | None]
"""A request, and its stream if that is in memory."""

_METHOD = "RoTTA"  # changes colours, so pixels must be in [0, 1]


class Serving:
    """Answers requests, and remembers what is to be learnt from them.

    Args:
        engine: Predicts and learns.
        residents: The streams.
        save_every: A stream is due to be saved after so many requests; 0: never.
    """

    def __init__(self, engine: Engine, residents: Residents, save_every: int) -> None:
        self._engine = engine
        self._residents = residents
        self._save_every = save_every
        residents.before_eviction = lambda name: self.learn([name])
        self._pending: dict[str, Predicted] = {}
        self._unnoted: list[Predicted] = []
        self._updated: dict[str, None] = {}
        self._to_save: dict[str, None] = {}
        self._shapes: set[torch.Size] = set()  # that the network is known to take
        self._like = engine.numbers.table.new_empty(0)  # of what images must be

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        """An answer to each; see :meth:`rotta.pool.StreamPool.predict`."""
        self.learn(request.stream for request in requests)
        answers: Answers = {}
        busy = {request.stream for request in requests}
        alike: dict[torch.Size, list[Asked]] = defaultdict(list)
        for request in requests:
            try:
                stream = self._fetched(request, busy)
            except (ValueError, StoreError) as error:
                answers[request.stream] = Prediction(request.stream, None, error)
            else:
                alike[request.images.shape[1:]].append((request, stream))
        for asked in alike.values():
            self._predict_alike(asked, busy, answers)
        return [answers[request.stream] for request in requests]

    def learn(self, names: Iterable[str] | None = None) -> None:
        """Let some streams, or all, learn what they have not learnt yet."""
        names = list(self._pending) if names is None else names
        lessons = {name: self._pending.pop(name) for name in names if name in self._pending}
        if lessons:
            rows = {stream.row for stream in self._engine.learn(list(lessons.values()))}
            updated = (name for name, lesson in lessons.items() if lesson.stream.row in rows)
            self._updated |= dict.fromkeys(updated)

    @property
    def waiting(self) -> int:
        """Streams that have not learnt yet what they predicted."""
        return len(self._pending)

    def next_to_learn(self) -> list[str]:
        """The streams that only fill their banks, and as many others as are updated in one pass.

        The oldest first, and at least one.
        """
        room, chosen = self._engine.updates_at_once, []
        for name, lesson in self._pending.items():
            updates = self._engine.updates_due(lesson)
            if not updates or room > 0:
                chosen.append(name)
                room -= updates
        return chosen

    def forget(self, name: str) -> None:
        """What a stream has not learnt yet, it never will."""
        for memory in (self._pending, self._updated, self._to_save):
            memory.pop(name, None)

    def note(self) -> None:
        """Take up what was predicted into the streams' records; waits for the device."""
        for predicted in self._unnoted:
            predicted.note()
        self._unnoted.clear()

    def updated(self) -> list[str]:
        """The streams that were updated since this was last asked."""
        updated, self._updated = self._updated, {}
        return list(updated)

    def due_to_be_saved(self) -> list[str]:
        """The streams that became due since this was last asked and have learnt what there was.

        Without those whose last save failed: they are tried again anyway.
        """
        due = [name for name in self._to_save if name not in self._pending]
        for name in due:
            del self._to_save[name]
        return [name for name in due if name not in self._residents.failed]

    def _fetched(self, request: Request, busy: Collection[str]) -> Stream | None:
        """The stream of a well-formed request, in memory; None if there is none yet."""
        stream = self._residents.used(request.stream)
        if stream is None:
            check_form(request.images, self._like, None)
            if not self._residents.is_known(request.stream):
                return None
            stream = self._residents.fetch(request.stream, busy)
        if not _is_like(request.images, self._like, stream.record.shape):
            check_form(request.images, self._like, stream.record.shape)
        return stream

    def _predict_alike(
        self, asked: Sequence[Asked], busy: Collection[str], answers: Answers
    ) -> None:
        """Serve requests whose images have one shape; streams that are not there are created.

        Whether the pixels are good is read while the device predicts, which changes nothing.
        """
        images = [request.images for request, _ in asked]
        x, sizes = torch.cat(images), [each.shape[0] for each in images]
        pixels = PixelRange(x)
        # one that is not there would begin with the numbers of the source
        rows = [SOURCE if stream is None else stream.row for _, stream in asked]
        try:
            predicted = self._engine.predict(rows, x, sizes)
        except (ValueError, RuntimeError) as error:
            if x.shape[1:] in self._shapes:
                raise  # it is not the images
            refusal = _not_taken(x.shape[1:], error)
            answers |= {r.stream: Prediction(r.stream, None, refusal) for r, _ in asked}
            return
        self._shapes.add(x.shape[1:])
        if _refusal(pixels) is None:
            self._answer(asked, sizes, predicted, busy, answers)
            return
        refusals = [(request, _refusal(PixelRange(request.images))) for request, _ in asked]
        answers |= {r.stream: Prediction(r.stream, None, e) for r, e in refusals if e is not None}
        good = [each for each in asked if each[0].stream not in answers]
        if good:
            self._predict_alike(good, busy, answers)

    def _answer(
        self,
        asked: Sequence[Asked],
        sizes: list[int],
        predicted: Pass,
        busy: Collection[str],
        answers: Answers,
    ) -> None:
        """Hand out what was predicted; streams that are new begin now, if there is room."""
        now, new, stop = time.time(), [], 0
        of_each = torch.split(predicted.logits, sizes)
        for (request, stream), size, logits in zip(asked, sizes, of_each, strict=True):
            name, start, stop = request.stream, stop, stop + size
            if stream is None:
                try:
                    stream = self._residents.create(name, busy)
                except (ValueError, StoreError) as error:
                    answers[name] = Prediction(name, None, error)
                    continue
                new.append(name)
            self._remember(name, Predicted(stream, predicted, start, stop), now)
            answers[name] = Prediction(name, logits)
        for name in new:
            self._residents.try_to_save(name)

    def _remember(self, name: str, predicted: Predicted, now: float) -> None:
        record = predicted.stream.record
        record.requests += 1
        record.last_used = now
        self._unnoted.append(predicted)
        if not record.frozen:
            self._pending[name] = predicted
        if self._save_every and record.requests % self._save_every == 0:
            self._to_save[name] = None  # a frozen one too: its record goes on


def _is_like(x: Tensor, like: Tensor, shape: tuple[int, ...] | None) -> bool:
    """Whether :func:`check_form` would let it pass, asked in a quarter of the time."""
    return (
        isinstance(x, Tensor)
        and x.shape[1:] == shape
        and x.dtype == like.dtype
        and x.device == like.device
        and x.numel() > 0
    )


def _refusal(pixels: PixelRange) -> BadInputError | None:
    try:
        pixels.check(_METHOD)
    except BadInputError as error:
        return error
    return None


def _not_taken(shape: torch.Size, error: Exception) -> ValueError:
    return ValueError(f"the network does not take images of shape {tuple(shape)} ({error})")
