"""What goes into a file comes out of it; a file that is not whole is refused in one sentence."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from rotta import state_file
from rotta.state_file import read_state, write_state

CONTENT: dict[Any, Any] = {
    "step": 3,
    "weights": {"a.b": torch.arange(6.0).view(2, 3), "a": [torch.tensor(True), (1, (2.5, None))]},
    0: {"half": torch.ones(2, dtype=torch.bfloat16), "none": torch.empty(4, 0), "no": []},
    "text": 'quoted "sha256":"' + "0" * 64,
    "infinite": (math.inf, -math.inf),
    ("a", 1): {"tensor": 5, "dict": [[1, 2]], "": {}},
}


def plain(value: Any) -> Any:
    """Comparable: tensors as dtype, shape and values."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return type(value)(plain(item) for item in value) if isinstance(value, list | tuple) else value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


def test_what_is_written_is_read(file: Path) -> None:
    write_state(file, "example", CONTENT)
    assert plain(read_state(file, "example")) == plain(CONTENT)


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
nested = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=25)
@given(content=nested)
def test_any_nesting_is_read_as_it_was(
    content: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "nested.safetensors"
    write_state(file, "example", content)
    read = read_state(file, "example")
    assert read == content
    assert repr(read) == repr(content)  # 1 is not 1.0, nor True


def test_nan_and_tensors_that_share_memory_and_any_layout(file: Path) -> None:
    whole = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    write_state(file, "example", [math.nan, whole, whole[:, 1], whole.mT])
    number, *tensors = read_state(file, "example")
    assert math.isnan(number)
    for read, written in zip(tensors, (whole, whole[:, 1], whole.mT), strict=True):
        assert torch.equal(read, written)


def test_other_tools_can_read_the_tensors(file: Path) -> None:
    write_state(file, "example", {"layer": {"weight": torch.ones(2)}})
    assert torch.equal(load_file(file)["example/layer/weight"], torch.ones(2))


def test_what_cannot_be_read_again_is_not_written(file: Path) -> None:
    with pytest.raises(TypeError, match="example/a/0 is of type set"):
        write_state(file, "example", {"a": [{1}]})
    assert not file.exists()


def test_every_single_byte_counts(file: Path) -> None:
    write_state(file, "example", {"a": torch.arange(3), "b": "text"})
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged|no whole file|update rotta"):
            read_state(file, "example")
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"no whole file|damaged"):
            read_state(file, "example")
    file.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="damaged"):
        read_state(file, "example")


def test_a_newer_file_is_told_from_a_damaged_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "FORMAT", 2)
    write_state(file, "example", 1)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"format 2, .* reads up to 1: update rotta"):
        read_state(file, "example")


def test_foreign_files_are_refused(file: Path) -> None:
    save_file({"weight": torch.ones(2)}, file, metadata={"arch": "wrn"})
    with pytest.raises(ValueError, match="something else"):
        read_state(file, "example")
    headers = [b"", b"{", b"[]", b'{"__metadata__": 7}', b'{"__metadata__": {"rotta": 1}}']
    for header in [*headers, b"[" * 100_000, b'{"__metadata__":"rotta"}', "é".encode("latin1")]:
        file.write_bytes(len(header).to_bytes(8, "little") + header)
        with pytest.raises(ValueError, match=r"no whole file|damaged"):
            read_state(file, "example")


def test_a_file_of_another_kind_is_refused(file: Path) -> None:
    write_state(file, "checkpoint of a walk", 1)
    with pytest.raises(ValueError, match="holds a checkpoint of a walk, not a method"):
        read_state(file, "method")


def test_where_there_is_no_file_it_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            read_state(path, "example")


def test_a_whole_file_of_nonsense_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As somebody else's program might write it: the checksum is right, the content is not."""
    for nonsense in ({"tensor": "none"}, {"what": 1}, {}, {"dict": 3}, {"tuple": 3, "float": 1}):
        monkeypatch.setattr(state_file, "_encoded", lambda *_, made=nonsense: made)
        write_state(file, "example", None)
        monkeypatch.undo()
        with pytest.raises(ValueError, match="damaged"):
            read_state(file, "example")
