"""What streams learn from: requests in columns, and banks side by side."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from rotta.memory.cstu_line import Ints
from rotta.nn.augment import strong_view_of_each
from rotta.pool.banks import Banks, Newcomers
from rotta.pool.predicted import Predicted
from rotta.pool.sent import sent
from rotta.pool.stream import Stream
from rotta.pool.update import Lesson


def by_shape(predicted: Sequence[Predicted]) -> list[list[Predicted]]:
    """Those together whose images are of one shape."""
    alike: dict[torch.Size, list[Predicted]] = defaultdict(list)
    for each in predicted:
        alike[each.of.shape].append(each)
    return list(alike.values())


def newcomers_of(lessons: Sequence[Predicted]) -> Newcomers:
    """All images of some requests, each of another stream; images of one shape."""
    passes = list({id(lesson.of): lesson.of for lesson in lessons}.values())
    ends = np.cumsum([len(each.label) for each in passes]).tolist()
    first = {id(each): end - len(each.label) for each, end in zip(passes, ends, strict=True)}
    images = [each.images for each in passes]
    return Newcomers(
        rows=np.array([lesson.stream.row for lesson in lessons]),
        starts=np.array([first[id(lesson.of)] + lesson.start for lesson in lessons]),
        sizes=np.array([lesson.stop - lesson.start for lesson in lessons]),
        images=images[0] if len(images) == 1 else torch.cat(images),
        label=np.concatenate([each.label for each in passes]),
        uncertainty=np.concatenate([each.uncertainty for each in passes]),
    )


def until_updates(newcomers: Newcomers, seen: Ints, every: int) -> Iterator[tuple[Newcomers, Ints]]:
    """Cut what arrives where updates are due, as :func:`~rotta.adapters.cadence.cadence` does.

    Args:
        newcomers: Of L streams.
        seen: Samples that each stream has seen before, (L,).
        every: Samples between its updates.

    Yields:
        The next part for each stream that has one, and which of the L are to be updated then.
    """
    who = np.arange(len(seen))
    while len(who):
        part = np.minimum(newcomers.sizes, every - seen % every)
        yield newcomers.first(part), who[(seen + part) % every == 0]
        some = newcomers.sizes > part
        newcomers, who, seen = newcomers.later(part), who[some], (seen + part)[some]


def lesson_of(
    streams: Sequence[Stream], banks: Banks, lr: float, device: torch.device
) -> tuple[Tensor, Lesson]:
    """What the banks of some streams teach, which are of one size; their views are drawn.

    Args:
        streams: G of them.
        banks: In which theirs are.
        lr: The learning rate that theirs are multiples of.
        device: On which the network is.

    Returns:
        Their rows in the table, (G,), and the lesson.
    """
    rows = [stream.row for stream in streams]
    weak = torch.stack([banks.images(row) for row in rows])
    strong = strong_view_of_each(weak, [stream.generator for stream in streams])
    steps = [stream.record.steps + 1 for stream in streams]
    rates = [stream.record.rate * lr for stream in streams]
    numbers = sent(torch.tensor([rows, steps, rates], dtype=torch.float64), device)
    return numbers[0].long(), Lesson(
        weak=interleaved(weak),
        strong=interleaved(strong),
        weight=sent(banks.weights(rows).to(weak.dtype), device).flatten(),
        steps=numbers[1],
        rates=numbers[2].float(),
    )


def interleaved(images: Tensor) -> Tensor:
    """(G, N, C, H, W), of G streams, as (N·G, C, H, W): one of every stream, the next, …"""
    return images.transpose(0, 1).flatten(0, 1)
