"""What every method is: a network that predicts, adapts while it does, and can be put back."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from rotta.adapters.building import Method
from rotta.adapters.checks import check_at_least_one, check_usable
from rotta.adapters.class_mix import ClassMix
from rotta.adapters.common import check_bad_input
from rotta.adapters.input_check import (
    REASONS,
    BadInputError,
    PixelRange,
    WarnOnce,
    check_form,
    first_answer,
    unpredicted,
    usable_images,
)
from rotta.adapters.learnt import Learnt, addresses
from rotta.adapters.logits import Intact, checked_logits
from rotta.adapters.method_state import (
    check_state,
    copied,
    load_optimiser,
    moments_follow,
    state_of,
)
from rotta.adapters.twin import twin_of
from rotta.adapters.unchanged import SharedPass, UnchangedPass
from rotta.guard import Event, Guard, shows_something
from rotta.memory.bank import Bank
from rotta.nn.cuda_graphs import Result
from rotta.nn.to_host import ToHost

_ALL_KEYS_MATCH = nn.Module().load_state_dict({})


class Adapter(nn.Module, metaclass=Method):
    """Predict, then adapt.

    The network that was given is never changed: methods work on copies, which may share the
    weights that they do not train. All that changes while adapting is in :meth:`state_dict`:
    parameters and buffers by themselves; optimisers, counters and random state because the
    method names them in ``STATE``.

    Args:
        net: A classifier: images (B, C, H, W) to logits (B, num_classes), or to an object that has
            them as ``.logits``.
        num_classes: C, the number of its outputs.
        bad_input: What is done about images that are not finite or out of range, and batches of
            another shape or dtype, on another device, or empty. ``"raise"``: an error, before
            anything has changed. ``"skip"``: what can be predicted is predicted, what is bad is
            neither learnt from nor normalised with, and all of it is counted. See :meth:`forward`.
        class_mix: Correct what is answered for the classes that arrive just now, see
            :class:`~rotta.adapters.class_mix.ClassMix`. What is learnt does not depend on it.
        guard: Look now and then whether what was learnt does harm, and put it back then: see
            :class:`~rotta.guard.Guard`.
        reset_every: Samples after which all that was learnt is forgotten: parameters, statistics,
            bank and optimiser return to the start, while random state, counters and the guard go
            on. The batch that reaches the number is learnt from as a whole. None: never.

    Attributes:
        bank: The memory bank, for methods that have one.
        skipped: How many images (``"non-finite"``, ``"range"``) and whole batches (the other
            reasons) were skipped so far.
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that change besides parameters and buffers."""

    AUGMENTS: ClassVar[bool] = False
    """Whether it changes colours of images, which must be in [0, 1] then."""

    LEARNS_FROM_ITS_PREDICTION: ClassVar[bool] = False
    """Whether the pass that predicts is the one that is trained, and keeps its gradients."""

    FREE: ClassVar[tuple[str, ...]] = ("seed",)
    """Options that may differ between a saved state and the method that continues it."""

    PASSES: ClassVar[float] = 1
    """Through the network per batch, roughly: of several walks the dearest starts first."""

    KEEPS_NOTHING: ClassVar[bool] = False
    """Whether its answer to a batch depends on that batch alone, with the common options left as
    they are. Each class says so for itself: one that is derived from it may keep something."""

    unchanged: UnchangedPass | SharedPass | None = None
    """Where the method answers from the network as it is: the pass, which it may share."""

    bank: Bank | None
    built: dict[str, Any]

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        bad_input: str = "raise",
        class_mix: bool = False,
        guard: bool = False,
        reset_every: int | None = None,
    ) -> None:
        super().__init__()
        check_usable(net)
        check_at_least_one(num_classes=num_classes)
        check_bad_input(bad_input)
        if reset_every is not None:
            check_at_least_one(reset_every=reset_every)
        self.num_classes = num_classes
        self.bad_input = bad_input
        self.skipped = dict.fromkeys(REASONS, 0)
        self.class_mix = ClassMix(num_classes).to(_device_of(net)) if class_mix else None
        self._guard = Guard() if guard else None
        self.reset_every = reset_every
        self._learnt_from = 0  # samples since it last started over by itself
        self.bank = None
        # not a submodule: it is not part of the state
        object.__setattr__(self, "source_net", net)
        self._start: dict[str, Any] | None = None
        self._input_shape: tuple[int, ...] | None = None
        self._intact = Intact()
        self._warn_once = WarnOnce()

    source_net: nn.Module
    """The network as it was given."""

    @abstractmethod
    def infer(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), for images, (B, C, H, W); changes nothing but random draws."""

    def learn(self, x: Tensor, logits: Tensor) -> None:
        """Learn from images, (B, C, H, W), and what was predicted, (B, num_classes)."""

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), as if nothing had been learnt, normalised as now.

        What a guard compares with; changes nothing.
        """
        with Learnt(self).left_out(), self._draws_given_back(always=True):
            return self.infer(x)

    def run_fast(self, function: Callable[..., Result], *inputs: Tensor) -> Result:
        """Call a function of tensors; for methods that can record what it does, and replay it."""
        return function(*inputs)

    def forget_recorded(self) -> None:
        """Called when what was recorded will not be what it was."""

    def forward(self, x: Tensor) -> Tensor:
        """Predict a batch, then adapt to it.

        Args:
            x: Images, (B, C, H, W), in the dtype and on the device of the network; any B ≥ 1. In
                [0, 1] for methods that augment them: normalisation belongs into the network.

        Returns:
            Logits, (B, num_classes), from before this batch changed anything. Where bad input is
            skipped, they are NaN for images that are not finite and for all of a batch that has
            another shape or dtype or is elsewhere; for what is no batch of images at all they are
            (0, num_classes).

        Raises:
            ValueError: The batch cannot be used; nothing has changed.
        """
        return self._run(x, learn=True)

    def predict(self, x: Tensor) -> Tensor:
        """What calling the method would return, without adapting: nothing changes.

        Args:
            x: Images, as for :meth:`forward`.

        Returns:
            Logits, (B, num_classes).

        Raises:
            ValueError: The batch cannot be used.

        Example:
            >>> import rotta
            >>> model = rotta.TENT(rotta.load_source("digits"), num_classes=10)
            >>> x = torch.rand(8, 3, 32, 32)
            >>> torch.equal(model.predict(x), model(x)), torch.equal(model.predict(x), model(x))
            (True, True)
        """
        return self._run(x, learn=False)

    def _run(self, x: Tensor, *, learn: bool) -> Tensor:
        like = next((p for p in self.parameters() if p.is_floating_point()), None)
        try:
            check_form(x, like, self._input_shape)
            return self._run_well_formed(x, learn=learn)
        except BadInputError as bad:
            if self.bad_input == "raise":
                raise
            self.skipped[bad.reason] += learn
            self._warn_once.of(bad)
            return unpredicted(x, self.num_classes, like)

    def _run_well_formed(self, x: Tensor, *, learn: bool) -> Tensor:
        pixels = PixelRange(x) if self.bad_input == "raise" else None
        self.remember_start()
        # callers may predict under no_grad, inference_mode or autocast; learning needs none
        precise = torch.autocast(x.device.type, enabled=False)
        with torch.inference_mode(False), torch.no_grad(), precise:
            x = x.clone() if x.is_inference() else x.detach()
            if type(x) is not Tensor and type(x).__torch_dispatch__ is Tensor.__torch_dispatch__:
                x = x.as_subclass(Tensor)  # a tensor by another name, which is not to be kept
            if pixels is None:
                return self._run_without_the_bad(x, learn=learn)
            return self._run_checked(x, pixels, learn=learn)

    def _run_checked(self, x: Tensor, pixels: PixelRange | None, *, learn: bool) -> Tensor:
        """Predict a batch and learn from it, once its pixels are known to be good."""
        # asked for first, read after the prediction was asked for: the device is never idle
        watched = learn and self._guard is not None
        shown = ToHost(self.run_fast(shows_something, x)) if watched else None
        with self._draws_given_back(always=not learn):
            with torch.set_grad_enabled(learn and self.LEARNS_FROM_ITS_PREDICTION):
                first = self._input_shape is None
                logits = first_answer(self.infer, x) if first else self.infer(x)
            if pixels is not None:
                pixels.check(augmented_by=type(self).__name__ if self.AUGMENTS else None)
        answer = logits.detach() if self.class_mix is None else self.class_mix(logits.detach())
        if learn:
            self._input_shape = tuple(x.shape[1:])
            if shown is None or self._may_learn(shown.read(), answer):
                self._learn(x, logits, answer)
        return answer

    def _may_learn(self, shown: Tensor, answer: Tensor) -> bool:
        """What the guard says; a mask, (B,), tells which images show something."""
        assert self._guard is not None
        return self._guard.may_learn(Learnt(self)) and self._guard.worth_learning(shown, answer)

    def _learn(self, x: Tensor, logits: Tensor, answer: Tensor) -> None:
        if self.class_mix is not None:
            self.class_mix.remember(logits.detach())
        self.learn(x, logits)
        if self._guard is not None:
            self._guard.look(Learnt(self), x, logits.detach(), answer)
        if self.reset_every is not None:
            self._start_over_if_due(len(x), self.reset_every)

    def _start_over_if_due(self, samples: int, every: int) -> None:
        """Count what was learnt from; forget it at every ``every``-th sample."""
        self._learnt_from += samples
        if self._learnt_from >= every:
            # what is over counts for the next time: large batches do not make it come later
            self._learnt_from %= every
            learnt = Learnt(self)
            if self._guard is not None:  # what it saw is of what is forgotten now
                self._guard.settle(learnt)
            learnt.put_back(None)

    def _run_without_the_bad(self, x: Tensor, *, learn: bool) -> Tensor:
        """Predict the images that are finite, and learn from those in range alone."""
        finite, usable = usable_images(x, self.AUGMENTS)
        odd = finite & ~usable
        if bool(usable.all()):
            return self._run_checked(x, None, learn=learn)
        without_number, out_of_range = int((~finite).sum()), int(odd.sum())
        logits = unpredicted(x, self.num_classes, x)
        if bool(odd.any()):  # on their own: the others' statistics are none of their business
            logits[odd] = self._run_checked(x[odd], None, learn=False)
        if bool(usable.any()):
            logits[usable] = self._run_checked(x[usable], None, learn=learn)
        else:
            self._warn_once.of_pixels(x, type(self).__name__ if self.AUGMENTS else None)
        if learn:
            self.skipped["non-finite"] += without_number
            self.skipped["range"] += out_of_range
        return logits

    def train(self, mode: bool = True) -> Self:
        """Only noted: in which mode its networks are is the method's own business."""
        self.training = mode
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """PyTorch's hook for :meth:`to` and its like; an optimiser would stay behind."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.STATE:
            if isinstance(held := getattr(self, name), torch.optim.Optimizer):
                moments_follow(held)
        return self

    def remember_start(self) -> None:
        """Note the state to which :meth:`reset` returns, if that has not been done yet."""
        if self._start is None:
            self._start = copied(self.state_dict(), keep=addresses(self.source_net))

    @property
    def start(self) -> dict[str, Any]:
        """The state to which :meth:`reset` returns; not to be changed."""
        self.remember_start()
        assert self._start is not None
        return self._start

    @property
    def events(self) -> list[Event]:
        """What the guard did, the newest last; nothing where there is none."""
        return [] if self._guard is None else self._guard.events

    def reset(self) -> None:
        """Return to the state before the first batch, exactly."""
        if self._start is not None:
            self.load_state_dict(self._start)

    def detach(self) -> nn.Module:
        """The network that was given, in its own mode, with its own parameters."""
        return self.source_net

    def logits(self, net: nn.Module, x: Tensor) -> Tensor:
        """What ``net`` says about images, checked: (B, num_classes)."""
        return checked_logits(partial(self._intact, net), x, self.num_classes)

    def get_extra_state(self) -> dict[str, Any]:
        """PyTorch's hook for :meth:`state_dict`: what ``STATE`` names, and the images' shape."""
        names = ("built", "_input_shape", "skipped", *self.STATE)
        names += ("_guard",) if self._guard is not None else ()
        names += ("_learnt_from",) if self.reset_every is not None else ()
        return {name: state_of(getattr(self, name)) for name in names}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """PyTorch's hook for :meth:`load_state_dict`."""
        for name, stored in copy.deepcopy(state).items():  # an optimiser would share its moments
            held = getattr(self, name)
            if isinstance(held, torch.optim.Optimizer):
                load_optimiser(held, stored)
            elif isinstance(held, torch.Generator):
                held.set_state(stored.cpu())
            elif isinstance(held, Guard):
                held.load(stored)
            else:
                setattr(self, name, stored)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Continue from the state of the same method, with the same options, on the same network.

        Where :meth:`reset` returns to is settled before.

        Raises:
            ValueError: It is the state of something else; nothing has changed.
        """
        if not strict or assign:
            raise ValueError("a state is loaded as a whole: leave strict and assign as they are")
        self.remember_start()
        mine, shared = self.state_dict(), addresses(self.source_net)
        check_state(self, mine, state_dict, shared)
        # weights that are shared with the network are equal, and are not even touched
        own = {
            name: value
            for name, value in state_dict.items()
            if not isinstance(value, Tensor) or mine[name].data_ptr() not in shared
        }
        with torch.inference_mode(False):
            super().load_state_dict(own, strict=False)
            if self.bank is not None:  # whose images are the network's kind of numbers
                self.bank.images = self.bank.images.to(self._dtype())
        return _ALL_KEYS_MATCH

    def _dtype(self) -> torch.dtype:
        return next((p.dtype for p in self.parameters() if p.is_floating_point()), torch.float32)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A twin that goes on by itself; what neither changes, it shares with the network too."""
        return twin_of(self, self._start or {}, memo)

    @contextmanager
    def _draws_given_back(self, *, always: bool) -> Iterator[None]:
        """Put the random state back: after an error, or always."""
        generator: torch.Generator | None = getattr(self, "generator", None)
        if generator is None:
            yield
            return
        state, done = generator.get_state(), False
        try:
            yield
            done = True
        finally:
            if always or not done:
                generator.set_state(state)


def _device_of(net: nn.Module) -> torch.device:
    return next((p.device for p in net.parameters()), torch.device("cpu"))
