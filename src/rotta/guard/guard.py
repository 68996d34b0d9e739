"""The guard: looks at a method now and then, and puts it back when learning has harmed it."""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from rotta.guard.events import ACTIONS, Event, rounded
from rotta.guard.rule import MOST_LOST, EvidenceOfHarm
from rotta.guard.signals import SIGNALS, all_signals
from rotta.nn.to_host import ToHost

LOOK_EVERY = 24
"""Batches between two looks in good times; while there is any doubt, every batch is looked at."""
SNAPSHOT_EVERY = 64
"""Batches, at least, between two snapshots."""
GRAVE = 0.2
"""Share of belief lost, from which an alarm does not begin with a lower rate, and from which it
speaks for harm whatever else is seen."""
TOO_FAR = 3.0
"""Distance of the parameters, in norms of those of the start, that nothing healthy learns."""
LOWERED = 0.1
"""By which every alarm multiplies the learning rate."""
MOST_STEPS_DOWN = 3
"""So often at most, so that there is a way back."""
QUIET_PER_ALARM = 1000
"""Batches without an alarm, for each alarm there was, after which the rate goes up by one step."""
BLIND_AFTER = 64
"""Images of batches in a row that show nothing, after which that is an event."""
DOUBT_LASTS = 240
"""Batches after an alarm, at most, in which every one is looked at; and after the rate goes up
again, if it was not healthy in between."""
MOST_EVENTS = 256
"""The oldest go first."""
_FRESH_IN_LEVEL = 0.25  # share of the newest look


class Guarded(Protocol):
    """What a guard needs of a method."""

    @property
    def learns(self) -> bool:
        """Whether it learns anything at all."""

    @property
    def optimiser(self) -> torch.optim.Optimizer | None:
        """Its optimiser, if it has one."""

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """Logits, (B, C), as if nothing had been learnt, normalised as now."""

    def run_fast(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Call a function, known by its name, that gives a tensor for tensors."""

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        """Those of its own, now and at the start."""

    def statistics(self) -> tuple[list[Tensor], list[Tensor]]:
        """Those that it tracks, now and at the start."""

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the parameters and statistics that adapting changes."""

    def put_back(self, snapshot: dict[str, Tensor] | None) -> None:
        """Return to a snapshot, or to the start, with a fresh optimiser and an empty bank."""

    def set_rate(self, factor: float) -> None:
        """Learn with so many times the learning rate of the start."""


class Guard:
    """Watches one method: see ``docs/guard.md`` for what it sees and when it acts.

    Attributes:
        events: What it did, the newest last.
    """

    _LATER: ClassVar[dict[str, Any]] = {"_blind_for": 0, "_asked": None}
    """What states of before do not have."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._evidence = EvidenceOfHarm()
        self._batches = 0  # that came, learnt from or not
        self._look_at = LOOK_EVERY
        self._level: float | None = None  # of the score, over the last few looks
        self._strikes = 0  # alarms since it was last known to be healthy
        self._alarms = 0
        self._steps_down = 0
        self._quiet_since = 0
        self._snapshot: dict[str, Tensor] | None = None
        self._snapshot_at = 0
        self._answers: Tensor | None = None  # (2, C): histograms of its answers and the reference's
        self._signals: dict[str, float] = {}
        self._was_finite: ToHost | bool = True
        self._asked: ToHost | Tensor | None = None  # signals of the last look, until they are read
        self._blind_for = 0  # images, up to now, of batches in a row that showed nothing

    def worth_learning(self, shown: Tensor, answer: Tensor) -> bool:
        """Whether a batch is: at least half of it shows something. Notes when that ends and begins.

        Args:
            shown: Which images do, (B,), on the host; see
                :func:`~rotta.guard.pictures.shows_something`.
            answer: What was said about them, (B, num_classes).
        """
        was_blind = self._blind_for >= BLIND_AFTER
        if 2 * int(shown.sum()) < len(shown):
            self._batches += 1
            self._was_finite = _extremes(answer)
            self._blind_for += len(shown)
            if not was_blind and self._blind_for >= BLIND_AFTER:
                self._note("leave out", "no picture")
            return False
        self._blind_for = 0
        if was_blind:
            self._note("learn again", "a picture again")
        return True

    def may_learn(self, method: Guarded) -> bool:
        """Whether the next batch may be learnt from: not if the method had to be put back.

        On a GPU all that the last batch left behind is read here, when it has long arrived; the
        next batch, which has been predicted already, keeps the device busy.
        """
        may = self.settle(method)
        self._batches += not may
        return may

    def settle(self, method: Guarded) -> bool:
        """Judge what was asked for last, if anything was, and act on it.

        Returns:
            Whether the method is where it was: no snapshot was put back.
        """
        finite, asked = self._finite(), self._asked
        self._was_finite, self._asked = True, None
        if asked is not None:
            seen = asked.read() if isinstance(asked, ToHost) else asked
            self._signals = dict(zip(SIGNALS, seen.tolist(), strict=True))
        stays = True
        if not finite:
            stays = self._alarm(method, "not finite", at_least="roll back")
        elif asked is not None:
            stays = self._judge(method)
            self._look_at = self._batches + (1 if self.in_doubt else LOOK_EVERY)
        if self._steps_down and self._batches - self._quiet_since >= self._quiet_needed():
            self._raise_rate(method)
        return stays

    @property
    def in_doubt(self) -> bool:
        """Whether an alarm was just raised, or one will be if it goes on like this."""
        alarmed = self._strikes > 0 and self._batches - self._quiet_since < DOUBT_LASTS
        return alarmed or (bool(self._signals) and _harm(self._signals) > MOST_LOST)

    @property
    def is_due(self) -> bool:
        """Whether the next :meth:`look` will ask the method for what it would say unlearnt."""
        return self._batches + 1 >= self._look_at

    def look(
        self, method: Guarded, x: Tensor, logits: Tensor, answer: Tensor | None = None
    ) -> None:
        """Note a batch that was learnt from; compare with the reference if it is time.

        What is seen is asked for, and judged before the next batch is learnt from.

        Args:
            method: What was called.
            x: Images, (B, C, H, W).
            logits: What its network said about them before it learnt, (B, num_classes).
            answer: What was made of that, (B, num_classes), if anything was.
        """
        self._batches += 1
        self._was_finite = _extremes(logits if answer is None else answer)
        if method.learns and self._batches >= self._look_at:
            self._ask(method, logits.detach(), method.infer_unlearnt(x))

    def _ask(self, method: Guarded, logits: Tensor, reference: Tensor) -> None:
        """For all signals, in one copy to the host."""

        def guard_signals(logits: Tensor, reference: Tensor, answers: Tensor) -> Tensor:
            own, tracked = method.parameters(), method.statistics()
            return all_signals(logits, reference, answers, own, tracked, method.optimiser)

        answers = logits.new_zeros(2, logits.shape[1])
        if self._answers is not None:
            answers = self._answers.to(answers)
        seen = method.run_fast(guard_signals, logits, reference, answers)
        self._asked = ToHost(seen[: len(SIGNALS)])
        self._answers = seen[len(SIGNALS) :].view_as(answers).clone()

    def _judge(self, method: Guarded) -> bool:
        """Act on what was seen; whether the method stays where it is."""
        signals = self._signals
        broken = _what_is_broken(signals)
        if broken is not None:
            return self._alarm(method, broken, at_least="roll back")
        score = signals["lost belief"]
        before = score if self._level is None else self._level
        self._level = before + _FRESH_IN_LEVEL * (score - before)
        self._evidence.add(_harm(signals))
        if self._evidence.is_enough:
            grave = self._level > GRAVE
            return self._alarm(method, "lost belief", at_least=ACTIONS[1] if grave else ACTIONS[0])
        if self._level < MOST_LOST / 2:
            self._certify(method)
        return True

    def _certify(self, method: Guarded) -> None:
        """It is healthy: strikes are forgotten, and this is where to roll back to."""
        self._strikes = 0
        if self._snapshot is None or self._batches - self._snapshot_at >= SNAPSHOT_EVERY:
            self._snapshot, self._snapshot_at = method.snapshot(), self._batches

    def _alarm(self, method: Guarded, cause: str, at_least: str) -> bool:
        """Do something about it; whether the method stays where it is."""
        severity = min(max(self._strikes, ACTIONS.index(at_least)), len(ACTIONS) - 1)
        if ACTIONS[severity] == "roll back" and self._snapshot is None:
            severity = ACTIONS.index("reset")
        action = ACTIONS[severity]
        if action == "reset":
            self._snapshot = None
        if action != "lower the rate":
            method.put_back(self._snapshot)
            self._answers, self._level = None, None
        self._strikes = severity + 1
        self._alarms += 1
        self._steps_down = min(self._steps_down + 1, MOST_STEPS_DOWN)
        self._note(action, cause)
        method.set_rate(LOWERED**self._steps_down)
        self._evidence.forget()
        self._quiet_since = self._batches
        self._look_at = self._batches + 1
        return action == "lower the rate"

    def _raise_rate(self, method: Guarded) -> None:
        self._steps_down -= 1
        self._quiet_since = self._batches
        self._note("raise the rate", "healthy again")
        method.set_rate(LOWERED**self._steps_down)

    def _quiet_needed(self) -> int:
        return QUIET_PER_ALARM * self._alarms

    def _note(self, action: str, cause: str) -> None:
        event = Event(
            batch=self._batches,
            action=action,
            cause=cause,
            evidence=float(f"{self._evidence.value:.5g}"),
            rate=float(f"{LOWERED**self._steps_down:.5g}"),
            signals=rounded(self._signals),
        )
        self.events = [*self.events, event][-MOST_EVENTS:]

    def _finite(self) -> bool:
        if isinstance(self._was_finite, ToHost):
            self._was_finite = bool(self._was_finite.read().isfinite().all())
        return self._was_finite

    def _read(self) -> None:
        """What is on its way to the host."""
        self._finite()
        if isinstance(self._asked, ToHost):
            self._asked = self._asked.read()

    def state(self) -> dict[str, Any]:
        """All that it remembers, as plain values and tensors."""
        self._read()
        plain = {name: value for name, value in self.__dict__.items() if name != "_evidence"}
        return {**plain, "_evidence": self._evidence.value}

    def __getstate__(self) -> dict[str, Any]:
        """A copy takes over what was on its way to the host."""
        self._read()
        return self.__dict__

    @classmethod
    def fits(cls, state: dict[str, Any]) -> bool:
        """Whether it has all that :meth:`load` needs, each of its kind, and nothing else."""
        own = cls().state()
        if not set(own) - set(cls._LATER) <= set(state) <= set(own):
            return False
        return all(_may_be(name, own[name], value) for name, value in state.items())

    def load(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        plain = {name: value for name, value in state.items() if name != "_evidence"}
        self.__dict__.update(self._LATER | plain)
        self._evidence.value = state["_evidence"]


def _may_be(name: str, at_first: Any, value: Any) -> bool:
    """Whether a guard may come to remember a value, which is ``at_first`` when it is new."""
    match name:
        case "events":
            return isinstance(value, list) and all(map(_is_event, value))
        case "_signals":
            return isinstance(value, dict) and (not value or _are_numbers(value, SIGNALS))
        case "_asked":
            return value is None or (isinstance(value, Tensor) and value.shape == (len(SIGNALS),))
        case "_answers":
            return value is None or (isinstance(value, Tensor) and value.ndim == 2)
        case "_snapshot":
            is_one = isinstance(value, dict) and all(map(torch.is_tensor, value.values()))
            return value is None or is_one
        case "_level":
            return value is None or type(value) in (int, float)
        case "_evidence":
            return type(value) in (int, float) and value >= 0
        case "_was_finite":
            return type(value) is bool
    assert type(at_first) is int, f"nobody says what {name} may be"
    return type(value) is int and 0 <= value < 2**63


def _are_numbers(values: dict[str, Any], names: Sequence[str]) -> bool:
    return set(values) == set(names) and all(type(each) is float for each in values.values())


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == set(Event.__annotations__)


def _harm(signals: dict[str, float]) -> float:
    """The share of belief lost, as far as it speaks for harm.

    A model that learns its own mistakes grows sure of them. One that overrules its reference now
    and then, and is less sure than that, has come to see things otherwise: that counts as the
    most that is healthy, which raises no alarm within 10,000 looks.
    """
    lost = signals["lost belief"]
    surer = signals["entropy"] < signals["entropy unlearnt"]
    return lost if surer or lost > GRAVE else min(lost, MOST_LOST)


def _extremes(logits: Tensor) -> ToHost:
    """Lowest and highest, NaN if there is one: fewer steps on a GPU than asking each of them."""
    return ToHost(torch.stack(torch.aminmax(logits)))


def _what_is_broken(signals: dict[str, float]) -> str | None:
    """The cause for an alarm that needs no further evidence, if there is one."""
    if not all(math.isfinite(value) for value in signals.values()):
        return "not finite"
    return "too far" if signals["parameter distance"] > TOO_FAR else None
