"""Source models of experiments: trained once, kept in the cache, found again."""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from rotta import folders
from rotta.experiments.experiment import Training
from rotta.models import read_weights
from rotta.models.train_to_file import Recipe, train_to_file
from rotta.progress import Progress


def train_source(training: Training, device: str, progress: Progress | None = None) -> Path:
    """Train a source model as ``rotta train`` does, unless that was done before.

    A training that was killed continues after its last finished epoch. If another process trains
    the same model, this one waits for it.

    Args:
        training: What to train, on what, and how.
        device: Where to compute.
        progress: Called with the steps done and the steps in all.

    Returns:
        The weight file, ``sources/<name>-<fingerprint>.safetensors`` in ``$ROTTA_CACHE``.

    Raises:
        FileNotFoundError: Images or the weights to start from are missing.
        ValueError: The training cannot work.
    """
    path = source_path(training)
    if path.is_file():
        return path
    recipe = asdict(training)
    del recipe["name"]

    def stage(what: str) -> AbstractContextManager[Progress | None]:
        return nullcontext(progress if what == "training" else None)

    with _alone(path):
        if not path.is_file():
            train_to_file(Recipe(**recipe), path, device=device, stage=stage)
    return path


def source_path(training: Training) -> Path:
    """Where the weights of a training are kept; another setting is another file."""
    return folders.cache() / "sources" / f"{training.full_name}.safetensors"


def source_error(path: Path) -> float:
    """The error of a trained source on its own domain's test images, in percent.

    Raises:
        ValueError: The file is damaged, or does not say.
    """
    try:
        _, metadata = read_weights(path)
        return float(metadata["clean_test_error"])
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or no trained source: delete it, and it is trained anew"
        ) from error


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Within, no other process makes ``path``.

    The lock file stays: if it were removed, one process could hold the old file's lock and
    another the new one's. The lock itself goes with the process, however that ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
