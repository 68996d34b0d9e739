"""The optimiser of every method that learns, and its step."""

from collections.abc import Iterable
from inspect import unwrap

import torch
from torch import Tensor, nn


class _Adam(torch.optim.Adam):
    """PyTorch's, without the compiler.

    Around these methods PyTorch lays others that keep its compiler away from them, and for that
    they import it: more than a second when the first optimiser is made.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Adam with its usual constants, all parameters in one kernel."""
    return _Adam(list(parameters), lr=lr, betas=(0.9, 0.999), fused=True)


def descend(loss: Tensor, optimiser: torch.optim.Optimizer, scale: float | None = None) -> None:
    """One step of gradient descent.

    Args:
        loss: Of no dimension.
        optimiser: Fused, where a scale is given.
        scale: By which gradients are multiplied on their way. If one goes beyond all bounds in
            spite of it, no step is taken.

    Raises:
        ValueError: Nothing that is trained took part in the loss.
    """
    optimiser.zero_grad(set_to_none=True)
    if loss.requires_grad:
        loss.backward(None if scale is None else loss.new_full((), scale))  # type: ignore[no-untyped-call]
    gradients = [p.grad for group in optimiser.param_groups for p in group["params"]]
    if all(gradient is None for gradient in gradients):
        raise ValueError(
            "nothing that is trained took part in the prediction: the network reaches its layers "
            "past the module tree (a plain list, a closure), where copying cannot follow. Hold "
            "them as submodules"
        )
    if scale is not None:
        norms = torch.stack(torch._foreach_norm([g for g in gradients if g is not None]))
        # PyTorch's own hooks for gradients that were scaled: the optimiser's kernel reads them
        optimiser.found_inf = 1 - norms.isfinite().all().float()  # type: ignore[attr-defined]
        optimiser.grad_scale = loss.new_full((), scale)  # type: ignore[attr-defined]
    recording = loss.is_cuda and torch.cuda.is_current_stream_capturing()
    for group in optimiser.param_groups:
        group["capturable"] = recording  # Adam wants to be told
    optimiser.step()
