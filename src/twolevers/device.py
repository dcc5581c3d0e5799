"""The device lever: which device a name means on this machine, its own name, its precision."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from twolevers.errors import InputError, Problem
from twolevers.options import DEVICES


@dataclass(frozen=True)
class Device:
    """A device of this machine, resolved."""

    name: str
    """`cpu`, `mps` or `cuda:N`: what PyTorch takes."""
    hardware: str
    """The hardware's own name, `Intel(R) Xeon(R) Processor @ 2.80GHz`."""
    threads: int
    """CPU threads PyTorch computes with."""
    memory_bytes: int
    """Memory the device can use: the machine's for a CPU, its own for a GPU."""

    @property
    def kind(self) -> str:
        return self.name.split(":")[0]

    @property
    def slot(self) -> str:
        """What two names of one device of a host share: `cuda:0` is another one in a process that
        is shown other GPUs, so a GPU goes by its own number."""
        if self.kind != "cuda":
            return self.kind
        unique = getattr(torch.cuda.get_device_properties(self.name), "uuid", None)
        return f"cuda-{unique or self.name.partition(':')[2]}"

    @property
    def label(self) -> str:
        """For people: the hardware, and the threads where they are the computing part."""
        return f"{self.hardware}, {self.threads} threads" if self.kind == "cpu" else self.hardware


def available_devices() -> list[Device]:
    """The devices of this machine, the one that `auto` takes first."""
    devices = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            devices.append(
                Device(
                    f"cuda:{index}",
                    properties.name,
                    torch.get_num_threads(),
                    properties.total_memory,
                )
            )
    if torch.backends.mps.is_available():
        devices.append(
            Device("mps", f"{_cpu_name()} GPU", torch.get_num_threads(), _machine_memory())
        )
    devices.append(Device("cpu", _cpu_name(), torch.get_num_threads(), _machine_memory()))
    return devices


def use_threads(count: int | None) -> None:
    """Let PyTorch compute with `count` CPU threads in this process; None keeps its choice."""
    if count is not None and count != torch.get_num_threads():
        torch.set_num_threads(count)


def find_device(name: str) -> Device:
    """The device that `name` means here. `auto`: the first GPU, else the CPU; `cuda`: `cuda:0`.

    Raises:
        InputError: an unknown name, or one that this machine lacks; names those it has.
    """
    wanted = name.strip().lower()
    devices = available_devices()
    here = ", ".join(f"{device.name} ({device.hardware})" for device in devices)
    if wanted not in DEVICES:
        raise InputError(
            Problem(
                "device",
                name,
                "no such device",
                f"choose one of {', '.join(DEVICES)}; this machine has {here}",
            )
        )
    if wanted == "auto":
        return devices[0]
    wanted = "cuda:0" if wanted == "cuda" else wanted
    for device in devices:
        if device.name == wanted:
            return device
    raise InputError(
        Problem("device", name, "this machine has no such device", f"choose one it has: {here}")
    )


def find_precision(precision: str, device: Device) -> str:
    """`auto` to the precision in which `device` computes fast; an explicit choice wins.

    bfloat16 on CUDA 8.0 and newer and on CPUs with AMX or AVX-512 BF16, else float32.

    Raises:
        InputError: float16 on a CPU, where gradients underflow and nothing is gained.
    """
    if precision == "auto":
        return "bfloat16" if _computes_bfloat16(device) else "float32"
    if precision == "float16" and device.kind != "cuda":
        raise InputError(
            Problem(
                "precision",
                precision,
                f"float16 is for CUDA, not for {device.name}",
                "choose float32 or bfloat16",
            )
        )
    return precision


def _computes_bfloat16(device: Device) -> bool:
    if device.kind == "cuda":
        return torch.cuda.get_device_capability(device.name) >= (8, 0)
    if device.kind == "cpu":
        return bool({"amx_bf16", "avx512_bf16"} & _cpu_flags())
    return False


def _cpu_info() -> str:
    info = Path("/proc/cpuinfo")
    return info.read_text(encoding="utf-8") if info.is_file() else ""


def _cpu_flags() -> set[str]:
    found = re.search(r"^flags\s*:\s*(.+)$", _cpu_info(), re.MULTILINE)
    return set(found.group(1).split()) if found else set()


def _cpu_name() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _cpu_info(), re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _machine_memory() -> int:
    """Physical memory in bytes, or the container's limit where that is lower; 0 if unknown."""
    limits = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and (text := group.read_text(encoding="utf-8").strip()).isdigit():
        limits.append(int(text))
    return min(limits, default=0)
