"""How a method is built: its options checked, and remembered as part of its state."""

from abc import ABCMeta
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rotta.adapters.common import check_options, defaults_of, signature_of


class Method(ABCMeta):
    """The class of methods: what is done for every one when it is built."""

    def __init__(cls, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        cls.__signature__ = signature_of(cls)  # for help(), which would show that of __call__

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Build one.

        Raises:
            ValueError: An option is of another type, or the network is a method already.
        """
        # numbers of numpy, and tensors of one number, would be lost where a state is saved
        options = {name: _plain(value) for name, value in options.items()}
        check_options(cls, options)
        for net in (*args[:1], options.get("net")):
            if isinstance(type(net), Method):
                raise ValueError(
                    f"the network is a {type(net).__name__} already: pass the one in it, "
                    "net.detach()"
                )
        with torch.inference_mode(False):  # or nothing in it could be trained
            method = super().__call__(*args, **options)
        # how it was built is part of its state: one that was built otherwise cannot continue it
        method.built = {"method": cls.__name__} | {
            name: value
            for name, value in {**defaults_of(cls), **options}.items()
            if name not in (*method.FREE, "bad_input")
            and isinstance(value, int | float | str | None)
        }
        return method


def _plain(value: Any) -> Any:
    one = isinstance(value, np.generic) or (isinstance(value, Tensor) and value.ndim == 0)
    return value.item() if one else value
