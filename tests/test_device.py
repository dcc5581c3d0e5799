"""The device lever on a machine with and without GPUs."""

from __future__ import annotations

import pytest
import torch

from twolevers import device as module
from twolevers.device import Device, available_devices, find_device, find_precision
from twolevers.errors import InputError

CPU = Device("cpu", "Some CPU", 2, 8 << 30)
GPUS = [Device(f"cuda:{index}", "Some GPU", 2, 40 << 30) for index in range(2)]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_devices", lambda: [*GPUS, CPU])


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("auto", "cuda:0"),
        ("cuda", "cuda:0"),
        ("cuda:1", "cuda:1"),
        ("CPU", "cpu"),
        (" cpu ", "cpu"),
    ],
)
def test_names(name: str, found: str) -> None:
    assert find_device(name).name == found


@pytest.mark.usefixtures("two_gpus")
def test_what_is_not_there_is_refused_with_what_is() -> None:
    with pytest.raises(InputError, match=r"'cuda:5'.*cuda:0 \(Some GPU\).*cpu \(Some CPU\)"):
        find_device("cuda:5")
    with pytest.raises(InputError, match=r"'gpu'.*no such device.*auto, cpu, mps, cuda"):
        find_device("gpu")


def test_this_machine_has_a_named_cpu() -> None:
    cpu = available_devices()[-1]
    assert cpu.name == "cpu"
    assert cpu.hardware
    assert cpu.threads == torch.get_num_threads()
    assert cpu.memory_bytes > 1 << 28
    assert f"{cpu.threads} threads" in cpu.label


@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        ({"avx512f", "avx512_bf16"}, "bfloat16"),
        ({"amx_bf16"}, "bfloat16"),
        ({"avx512f", "avx2"}, "float32"),
        (set(), "float32"),
    ],
)
def test_auto_precision_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], precision: str
) -> None:
    monkeypatch.setattr(module, "_cpu_flags", lambda: flags)
    assert find_precision("auto", CPU) == precision
    assert find_precision("bfloat16", CPU) == "bfloat16"  # an explicit choice wins


@pytest.mark.parametrize(("capability", "precision"), [((8, 0), "bfloat16"), ((7, 5), "float32")])
def test_auto_precision_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _name: capability)
    assert find_precision("auto", GPUS[0]) == precision
    assert find_precision("float16", GPUS[0]) == "float16"


def test_float16_is_no_precision_of_a_cpu() -> None:
    with pytest.raises(InputError, match="float16 is for CUDA"):
        find_precision("float16", CPU)
