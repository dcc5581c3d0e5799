"""Kept memory: a step's pages are there for the next one, and go back afterwards."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import os, resource, sys
import torch
from twolevers.allocator import kept_memory

def faults_of_a_round():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        blocks = [torch.ones(12 << 20) for _ in range(3)]  # 48 MiB each, never kept by itself
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

faults_of_a_round()
plain = faults_of_a_round()
start = resident()
with kept_memory():
    with kept_memory():
        faults_of_a_round()
    kept = faults_of_a_round()
print(plain, kept, resident() - start)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_memory_is_kept_inside_and_given_back_afterwards():
    plain, kept, more = map(int, _run({}).split())
    assert plain > 1_000
    assert kept < plain / 20
    assert more < 32 * 2**20


def test_what_the_user_has_set_stays():
    plain, kept, _ = map(int, _run({"MALLOC_MMAP_THRESHOLD_": "65536"}).split())
    assert kept > plain / 2 > 1_000


def _run(settings: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": "", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
