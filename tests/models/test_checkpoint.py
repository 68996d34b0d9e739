import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from rotta.models import build, read_weights, save_weights
from rotta.models.loading import load_into


def test_saved_weights_come_back(tmp_path: Path) -> None:
    model = build("wrn-10-1", 10, seed=1)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    save_weights(tmp_path / "a.safetensors", model, {"arch": "wrn-10-1"})
    weights, metadata = read_weights(tmp_path / "a.safetensors")
    assert metadata == {"arch": "wrn-10-1"}
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], x) for name, x in model.state_dict().items())


def test_half_storage_is_half_the_size_and_read_as_float32(tmp_path: Path) -> None:
    model = build("wrn-10-1", 10)
    save_weights(tmp_path / "whole.safetensors", model, {})
    save_weights(tmp_path / "half.safetensors", model, {}, half=True)
    whole, half = ((tmp_path / f"{n}.safetensors").stat().st_size for n in ("whole", "half"))
    assert half < 0.6 * whole
    weights, _ = read_weights(tmp_path / "half.safetensors")
    assert weights["conv1.weight"].dtype == torch.float32
    assert weights["bn1.num_batches_tracked"].dtype == torch.int64
    assert torch.equal(weights["conv1.weight"], model.state_dict()["conv1.weight"].half().float())


def test_half_storage_refuses_what_overflows_and_leaves_no_file(tmp_path: Path) -> None:
    model = build("wrn-10-1", 10)
    model.get_buffer("bn1.running_var").fill_(1e6)
    with pytest.raises(ValueError, match=r"bn1.running_var does not fit into 16 bits"):
        save_weights(tmp_path / "a.safetensors", model, {}, half=True)
    assert not list(tmp_path.iterdir())


def test_saving_under_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end .* in \.safetensors"):
        save_weights(tmp_path / "a.pt", build("wrn-10-1", 10), {})


def test_int8_weights_are_rescaled(tmp_path: Path) -> None:
    quantised = torch.randint(-127, 128, (4, 2, 3, 3), dtype=torch.int8)
    scale = torch.rand(4, 1, 1, 1).half()
    file = tmp_path / "a.safetensors"
    save_file({"conv.weight": quantised, "conv.weight::scale": scale}, file)
    weights, _ = read_weights(file)
    assert list(weights) == ["conv.weight"]
    assert torch.equal(weights["conv.weight"], quantised.float() * scale.float())


@pytest.mark.parametrize(
    ("name", "value"),
    [("conv.weight", torch.ones(1, dtype=torch.int8)), ("conv.weight::scale", torch.ones(1))],
)
def test_int8_and_scale_need_each_other(tmp_path: Path, name: str, value: Tensor) -> None:
    save_file({name: value}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"conv\.weight"):
        read_weights(tmp_path / "a.safetensors")


@pytest.mark.parametrize("suffix", ["pt", "pth", "tar"])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "model_state_dict", "net"])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model."])
def test_wrappers_and_prefixes_come_off(
    tmp_path: Path, suffix: str, wrapper: str | None, prefix: str
) -> None:
    model = build("wrn-10-1", 10, seed=2)
    state: dict[str, object] = {prefix + name: x for name, x in model.state_dict().items()}
    if wrapper:
        state = {wrapper: state, "epoch": 3, "best_acc": 0.5}
    torch.save(state, tmp_path / f"a.{suffix}")
    weights, metadata = read_weights(tmp_path / f"a.{suffix}")
    assert metadata == {}
    fresh = build("wrn-10-1", 10, seed=3)
    load_into(fresh, weights)
    assert torch.equal(fresh.head.weight, model.head.weight)


def test_a_normalising_wrapper_brings_its_mean_and_std(tmp_path: Path) -> None:
    model = build("wrn-10-1", 10)
    state = {f"model.{n}": x for n, x in model.state_dict().items() if n not in ("mu", "sigma")}
    mean, std = torch.full((1, 3, 1, 1), 0.4), torch.full((1, 3, 1, 1), 0.2)
    torch.save({"normalize.mean": mean, "normalize.std": std, **state}, tmp_path / "a.pt")
    load_into(model, read_weights(tmp_path / "a.pt")[0])
    assert torch.equal(model.mu, mean)
    assert torch.equal(model.sigma, std)


def test_a_name_under_two_prefixes_is_refused(tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.ones(1), "module.fc.weight": torch.ones(1)}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"holds 'fc\.weight' twice"):
        read_weights(tmp_path / "a.pt")


class _Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_code_in_a_file_is_refused_and_does_not_run(tmp_path: Path) -> None:
    target = tmp_path / "owned"
    torch.save({"state_dict": {"fc.weight": _Malicious(target)}}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="holds code"):
        read_weights(tmp_path / "a.pt")
    assert not target.exists()
    torch.load(tmp_path / "a.pt", weights_only=False)  # the trap does work
    assert target.exists()


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.9])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, suffix: str, kept: float) -> None:
    file = tmp_path / f"a.{suffix}"
    model = build("wrn-10-1", 10)
    if suffix == "pt":
        torch.save(model.state_dict(), file)
    else:
        save_weights(file, model, {})
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ValueError, match=r"whole safetensors file|cut off"):
        read_weights(file)


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_a_foreign_file_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").write_text("<html>404 not found</html>")
    with pytest.raises(ValueError, match=f"a.{suffix}"):
        read_weights(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("content", [[1, 2], {}, {"state_dict": {"fc.weight": "text"}}])
def test_a_file_without_weights_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"holds (no|more than) weights"):
        read_weights(tmp_path / "a.pt")


def test_another_ending_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.npz").touch()
    with pytest.raises(ValueError, match=r"\.safetensors, \.pt, \.pth, \.tar"):
        read_weights(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt"):
        read_weights(tmp_path / "nowhere.pt")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "backbone.", "net.encoder."])
def test_prefixes_of_wrapped_models_are_seen_through(tmp_path: Path, prefix: str) -> None:
    weights = build("wrn-10-1", 4).state_dict()
    torch.save({prefix + name: x for name, x in weights.items()}, tmp_path / "a.pt")
    read, _ = read_weights(tmp_path / "a.pt")
    assert read.keys() == weights.keys()


def test_the_only_weights_among_other_things_are_taken(tmp_path: Path) -> None:
    weights = build("wrn-10-1", 4).state_dict()
    torch.save({"epoch": 3, "model_state": weights}, tmp_path / "a.pt")
    assert read_weights(tmp_path / "a.pt")[0].keys() == weights.keys()


def test_a_file_that_holds_itself_comes_to_an_end(tmp_path: Path) -> None:
    content: dict[str, object] = {}
    content["state_dict"] = content
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="holds more than weights"):
        read_weights(tmp_path / "a.pt")


def test_scales_are_one_per_output_channel(tmp_path: Path) -> None:
    weight = torch.ones(4, 3, 3, 3, dtype=torch.int8)
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
    save_file({"conv.weight": weight, "conv.weight::scale": scale}, tmp_path / "a.safetensors")
    read, _ = read_weights(tmp_path / "a.safetensors")
    assert read["conv.weight"][:, 0, 0, 0].tolist() == [1, 2, 3, 4]
    save_file({"conv.weight": weight, "conv.weight::scale": scale[:3]}, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="one number per output channel"):
        read_weights(tmp_path / "b.safetensors")


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    torch.save({"fc.weight": torch.tensor([1.0, torch.nan])}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"NaN or infinite numbers in 'fc\.weight'"):
        read_weights(tmp_path / "a.pt")
