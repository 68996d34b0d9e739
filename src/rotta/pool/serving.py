"""Requests: which can be served, what is predicted for them, and what is learnt from them."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor

from rotta.adapters.input_check import BadInputError, PixelRange, check_form
from rotta.pool.engine import Engine
from rotta.pool.predicted import Predicted
from rotta.pool.records import Prediction, Request
from rotta.pool.residents import Residents
from rotta.pool.store import StoreError

Answers = dict[str, Prediction]
"""By stream."""

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

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        """An answer to each; see :meth:`rotta.pool.StreamPool.predict`."""
        self.learn(request.stream for request in requests)
        answers: Answers = {}
        busy = {request.stream for request in requests}
        fetched = _passing(requests, partial(self._fetch, busy=busy), answers)
        for alike in _by_shape(fetched):
            self._predict_alike(alike, busy, answers)
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
            predicted.stream.record.note(predicted.label, predicted.uncertainty)
        self._unnoted.clear()

    def updated(self) -> list[str]:
        """The streams that were updated since this was last asked."""
        updated, self._updated = self._updated, {}
        return list(updated)

    def due_to_be_saved(self) -> list[str]:
        """The streams that became due since this was last asked and have learnt what there was."""
        due = [name for name in self._to_save if name not in self._pending]
        for name in due:
            del self._to_save[name]
        return due

    def _fetch(self, request: Request, busy: Collection[str]) -> None:
        """Bring the stream of a well-formed request into memory, if there is one already."""
        like = self._engine.numbers.table
        check_form(request.images, like, None)
        if self._residents.is_known(request.stream):
            stream = self._residents.fetch(request.stream, busy)
            check_form(request.images, like, stream.record.shape)

    def _predict_alike(
        self, requests: Sequence[Request], busy: Collection[str], answers: Answers
    ) -> None:
        """Serve requests whose images have one shape; streams that are not there are created."""
        if not _are_good(torch.cat([request.images for request in requests])):
            requests = _passing(requests, _check_pixels, answers)
        new = [r.stream for r in requests if not self._residents.is_known(r.stream)]
        requests = _passing(requests, partial(self._create, busy=busy), answers)
        try:
            answers |= self._in_one_pass(requests)
        except (ValueError, RuntimeError) as error:
            if requests[0].images.shape[1:] in self._shapes:
                raise  # it is not the images
            answers |= _not_taken(requests, error)
            for name in new:
                self._residents.abandon(name)
        else:
            for name in new:
                if self._residents.is_known(name):
                    self._residents.try_to_save(name)

    def _create(self, request: Request, busy: Collection[str]) -> None:
        if not self._residents.is_known(request.stream):
            self._residents.create(request.stream, busy)

    def _in_one_pass(self, requests: Sequence[Request]) -> Answers:
        if not requests:
            return {}
        streams = [self._residents.fetch(request.stream) for request in requests]
        x = torch.cat([request.images for request in requests])
        sizes = [len(request.images) for request in requests]
        predicted = self._engine.predict(streams, x, sizes)
        self._shapes.add(x.shape[1:])
        for request, each in zip(requests, predicted, strict=True):
            self._remember(request.stream, each)
        return {
            request.stream: Prediction(request.stream, each.logits)
            for request, each in zip(requests, predicted, strict=True)
        }

    def _remember(self, name: str, predicted: Predicted) -> None:
        record = predicted.stream.record
        record.requests += 1
        record.last_used = time.time()
        self._unnoted.append(predicted)
        if not record.frozen:
            self._pending[name] = predicted
            if self._save_every and record.requests % self._save_every == 0:
                self._to_save[name] = None


def _passing(
    requests: Iterable[Request], check: Callable[[Request], None], answers: Answers
) -> list[Request]:
    """Those that pass a check; to the others goes the error as their answer."""
    passing = []
    for request in requests:
        try:
            check(request)
        except (ValueError, StoreError) as error:
            answers[request.stream] = Prediction(request.stream, None, error)
        else:
            passing.append(request)
    return passing


def _by_shape(requests: Iterable[Request]) -> list[list[Request]]:
    alike: dict[torch.Size, list[Request]] = defaultdict(list)
    for request in requests:
        alike[request.images.shape[1:]].append(request)
    return list(alike.values())


def _are_good(x: Tensor) -> bool:
    """Whether no image need be looked at closer, in one question to the device."""
    try:
        PixelRange(x).check(_METHOD)
    except BadInputError:
        return False
    return True


def _check_pixels(request: Request) -> None:
    PixelRange(request.images).check(_METHOD)


def _not_taken(requests: Sequence[Request], error: Exception) -> Answers:
    shape = tuple(requests[0].images.shape[1:])
    refusal = ValueError(f"the network does not take images of shape {shape} ({error})")
    return {r.stream: Prediction(r.stream, None, refusal) for r in requests}
