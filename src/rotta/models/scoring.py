"""How often a network is wrong."""

import numpy as np
import torch
from torch import nn

from rotta.datasets.base import ImageSet
from rotta.progress import Progress


@torch.no_grad()  # not inference mode: a network moved inside it could never be trained again
def error_rate(
    model: nn.Module,
    image_set: ImageSet,
    *,
    batch_size: int = 256,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> float:
    """Share of wrongly classified images in percent, in evaluation mode.

    Args:
        model: Takes RGB in [0, 1], (B, 3, H, W), and gives logits. It is moved to ``device``;
            its mode is put back.
        image_set: Images and labels, N of them.
        batch_size: Images at a time; the result does not depend on it.
        device: Where to compute.
        progress: Called with the images done and N.

    Raises:
        ValueError: There is no image.
    """
    total = len(image_set.labels)
    if total == 0:
        raise ValueError("an error rate needs at least one image")
    labels = torch.from_numpy(np.asarray(image_set.labels))
    was_training = model.training
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    try:
        model.eval().to(device)
        for indices in np.split(np.arange(total), range(batch_size, total, batch_size)):
            x = image_set.images(indices).to(device).float() / 255
            predicted = model(x.contiguous(memory_format=torch.channels_last)).argmax(1)
            wrong += (predicted != labels[indices].to(device)).sum()
            if progress:
                progress(int(indices[-1]) + 1, total)
    finally:
        model.train(was_training)
    return 100.0 * int(wrong) / total
