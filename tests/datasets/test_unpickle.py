"""The restricted unpickler: arrays pass, anything that could run code does not."""

import builtins
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rotta.datasets.unpickle import unpickle


class Calls:
    """Pickles to a call of ``function``."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def test_arrays_and_containers_pass() -> None:
    table = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2], "name": b"a"}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        if protocol == 5:  # writes arrays through another function, which CIFAR's files do not use
            continue
        read = unpickle(pickle.dumps(table, protocol), name="file")
        assert read["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read["labels"] == [1, 2]
        assert read["name"] == b"a"


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_both_names_of_numpys_module_pass(module: str) -> None:
    """CIFAR's files carry the name from before NumPy 2."""
    content = pickle.dumps(np.arange(3, dtype=np.uint8), protocol=2)
    written = [a for _, a, _ in pickletools.genops(content) if str(a).endswith("_reconstruct")]
    old = str(written[0]).split()[0].encode()
    assert unpickle(content.replace(old, module.encode()), name="file").tolist() == [0, 1, 2]


def test_python_2_strings_become_text() -> None:
    assert unpickle(b"\x80\x02U\x04data.", name="file") == "data"


def test_a_pickle_that_carries_code_is_refused_before_it_runs(tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    for harmful in (
        Calls(os.mkdir, str(trace)),
        Calls(builtins.eval, f"open({str(trace)!r}, 'w')"),
    ):
        content = pickle.dumps(harmful)
        with pytest.raises(ValueError, match="test_batch was refused: it asks for"):
            unpickle(content, name="test_batch")
        assert not trace.exists()
        pickle.loads(content)  # the same bytes do harm elsewhere, so the test can fail
        assert trace.exists()
        trace.rmdir() if trace.is_dir() else trace.unlink()


@pytest.mark.parametrize("target", ["numpy.load", "numpy.ndarray.tofile", "posix.system"])
def test_neighbours_of_what_is_allowed_are_refused(target: str) -> None:
    module, name = (
        target.rsplit(".", 1)
        if target != "numpy.ndarray.tofile"
        else (
            "numpy",
            "ndarray.tofile",
        )
    )
    content = b"\x80\x04" + b"".join(
        b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)
    )
    with pytest.raises(ValueError, match="refused"):
        unpickle(content + b"\x93.", name="file")


def test_a_damaged_pickle_is_named() -> None:
    content = pickle.dumps({"data": list(range(100))})
    with pytest.raises(ValueError, match="test_batch"):
        unpickle(content[: len(content) // 2], name="test_batch")
