"""What a run leaves behind: its errors, its configuration, and what they came from."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from rotta.atomic import replacing
from rotta.versions import versions


@dataclass(frozen=True)
class MethodResult:
    """What one method scored."""

    average_error: float
    """Mean over the domains, in percent."""
    per_domain: Mapping[str, float]
    ms_per_batch: float
    """Median over the batches, predict and adapt; the wait for images is not in it."""


@dataclass(frozen=True)
class Result:
    """A run: methods over one stream."""

    methods: Mapping[str, MethodResult]
    config: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write as JSON, completely or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def provenance(device: torch.device | str, data: Mapping[str, str]) -> dict[str, Any]:
    """What a result depends on besides its configuration.

    Args:
        device: Where it was computed.
        data: The dataset's own record of its files.
    """
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "device": device_name(torch.device(device)),
        "threads": torch.get_num_threads(),
        "commit": _commit(),
        "data": dict(data),
    }


def device_name(device: torch.device) -> str:
    """In words: ``NVIDIA H200``, or the processor's architecture and cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def _commit() -> str:
    """The commit of the checkout that this file is in, with a + if something was changed."""
    stated = os.environ.get("ROTTA_COMMIT")  # for copies of a checkout that travel without .git
    if stated:
        return stated
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parents[1]:
            return "unknown"  # installed into some other project's tree
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
