"""Both servers and the workers of one machine: `twolevers up`, `down` and `status`.

`up` stays in front of what it has started and ends it again. Prefect and MLflow are imported by
those processes, not here: this one stays small.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from filelock import FileLock, Timeout

from flows import deploy
from flows.close_killed import KilledRuns
from flows.deploy_command import run_deploy
from flows.parts import (
    MLFLOW,
    PREFECT,
    START_SECONDS,
    Part,
    look_for_gpu,
    plan_servers,
    plan_worker,
    say,
    upgrades_said,
)
from flows.running import (
    Record,
    Running,
    answers,
    current_record,
    is_alive,
    is_up,
    last_record,
    now,
    record_file,
    up_lock,
    write_record,
)
from flows.server_process import STOP_SECONDS
from flows.temporary_server import check_server
from twolevers.environment import writable_home
from twolevers.errors import TwoleversError
from twolevers.settings import Home, load_settings


def up(host: str, prefect_port: int, mlflow_port: int, pools: Sequence[str] = ()) -> None:
    """Start what is missing, deploy, and wait until it is to end; or use the `up` that runs.

    Args:
        pools: what workers take from; without any, `cpu`, and `cuda` where there is a GPU.

    Raises:
        InputError: a port or the host cannot be had.
        TwoleversError: something does not start, or ends again and again.
    """
    home = writable_home()
    lock = up_lock(home)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        _use_running(home)
        return
    try:
        began = time.monotonic()
        _wait_for_killed(home)
        record = Record(os.getpid(), now())
        parts = plan_servers(home, host, prefect_port, mlflow_port)
        started: list[Part] = []
        try:
            write_record(home, record)
            with upgrades_said(home):
                _start(home, record, parts, started, pools)
            record.ready = True
            write_record(home, record)
            print(
                f"\nReady after {time.monotonic() - began:.1f} s. "
                "Ctrl-C or `twolevers down` ends it.",
                flush=True,
            )
            _watch(home, record, started)
        except KeyboardInterrupt:
            print(flush=True)  # below the terminal's ^C
        finally:
            _stop(started)
            record_file(home).unlink(missing_ok=True)
    finally:
        lock.release()


def _start(
    home: Home, record: Record, parts: list[Part], started: list[Part], pools: Sequence[str]
) -> None:
    """Start the servers side by side, then deploy, then the workers."""

    def ready(part: Part) -> None:
        part.wait_until_ready()
        entry = record.running[part.name] = part.running
        write_record(home, record)
        say(part.name, entry.where, time.monotonic() - part.began)

    by_name = {part.name: part for part in parts}
    gpu = look_for_gpu()
    with _first_start(home):
        for part in parts:
            started.append(part)
            part.start()
        elsewhere = os.environ.get("PREFECT_API_URL", "").rstrip("/").removesuffix("/api")
        if PREFECT in by_name:
            ready(by_name[PREFECT])
            os.environ["PREFECT_API_URL"] = f"{by_name[PREFECT].address}/api"
        else:
            check_server(os.environ["PREFECT_API_URL"])
            _use_elsewhere(record, PREFECT, elsewhere, "PREFECT_API_URL")
        os.environ.setdefault("PREFECT_UI_URL", record.running[PREFECT].page)
    os.environ["TWOLEVERS_CODE"] = str(deploy.CODE)

    def look_at_mlflow() -> None:
        part = by_name.get(MLFLOW)
        if part and part.name not in record.running and answers(part.name, part.address, 2):
            ready(part)

    if PREFECT in by_name:
        run_deploy(home, look_at_mlflow)
    if MLFLOW not in by_name:
        address = str(load_settings().tracking_uri)
        _use_elsewhere(record, MLFLOW, address, "TWOLEVERS_TRACKING_URI")
    # A press of Run should not have to wait for the worker's usual 10 s.
    os.environ.setdefault("PREFECT_WORKER_QUERY_SECONDS", "2")
    for pool in dict.fromkeys(pools) or ["cpu", *(["cuda"] if gpu() else [])]:
        worker = plan_worker(home, pool)
        started.append(worker)
        worker.start()
    for part in started:
        if part.name not in record.running:
            ready(part)


def _use_elsewhere(record: Record, name: str, address: str, variable: str) -> None:
    record.running[name] = Running(None, now(), address)
    if address.startswith("http") and not answers(name, address):
        raise TwoleversError(
            f"{name} at {address} does not answer. Start it, correct {variable}, or unset it: "
            "then a server is started here."
        )
    say(name, f"{record.running[name].where} ({variable})")


@contextmanager
def _first_start(home: Home) -> Iterator[None]:
    """Two first starts at once break Prefect's database: they wait for each other."""
    lock = FileLock(home.prefect / "start.lock")
    try:
        lock.acquire(timeout=0.5)
    except Timeout:
        say(PREFECT, "another start is under way; waiting")
        lock.acquire(timeout=START_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _watch(home: Home, record: Record, started: list[Part]) -> None:
    """Until a signal comes: start again what ended by itself, unless it had just begun."""
    killed = KilledRuns(home)
    while True:
        time.sleep(1)
        killed.close()
        for part in started:
            if part.ended is None:
                continue
            lasted = time.monotonic() - part.began
            say(part.name, f"ended by itself (status {part.ended}); its log is {part.log}")
            waited = bool(part.pool) and _wait_for_prefect_elsewhere(record)
            if lasted < 30 and not waited:
                raise TwoleversError(f"{part.name} does not stay up; {part.log} says why.")
            part.stop(0)
            part.start()
            part.wait_until_ready()
            record.running[part.name] = part.running
            write_record(home, record)
            say(part.name, "runs again", time.monotonic() - part.began)


def _wait_for_prefect_elsewhere(record: Record) -> bool:
    """A worker gives up when its server is gone for long. Whether that had to be waited for."""
    server = record.running[PREFECT]
    if server.pid or answers(PREFECT, server.address):
        return False
    say(PREFECT, f"{server.page} does not answer; waiting for it")
    while not answers(PREFECT, server.address):
        time.sleep(2)
    return True


def _stop(started: list[Part]) -> None:
    """The workers first, so that their runs can report how they ended. A second Ctrl-C hurries."""
    patience = STOP_SECONDS + 10
    for part in reversed(started):
        began = time.monotonic()
        try:
            part.stop(patience)
        except KeyboardInterrupt:
            patience = 0
        say(part.name, "stopped", time.monotonic() - began)


def _wait_for_killed(home: Home) -> None:
    """What an `up` that was killed had started ends by itself: give it the time for that."""
    record = last_record(home)
    if record is None:
        return
    deadline = time.monotonic() + STOP_SECONDS + 10
    pids = [entry.pid for entry in record.running.values()]
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.2)
    record_file(home).unlink(missing_ok=True)


def _use_running(home: Home) -> None:
    """An `up` runs over this home: say where, and deploy what prefect.yaml holds now.

    Raises:
        TwoleversError: it does not become ready.
    """
    deadline = time.monotonic() + START_SECONDS
    while is_up(home) and time.monotonic() < deadline:
        record = current_record(home)
        if record and record.ready:
            break
        time.sleep(0.5)
    else:
        raise TwoleversError("Another `twolevers up` was starting, and did not become ready.")
    print(f"Already up since {record.since}; `twolevers down` ends it.")
    if not _print_status(record):
        raise TwoleversError("Not all of it answers: `twolevers down`, then `twolevers up`.")
    if record.running[PREFECT].pid:
        os.environ["PREFECT_API_URL"] = f"{record.running[PREFECT].address}/api"
        os.environ["PREFECT_UI_URL"] = record.running[PREFECT].page
        run_deploy(home)


def down() -> None:
    """End the `up` that runs over this home, and wait until all of it has ended.

    Raises:
        TwoleversError: it does not end.
    """
    home = Home()
    record = current_record(home)
    if record is None:
        print("Nothing runs.")
        return
    print(f"Ending what is up since {record.since} …", flush=True)
    os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS + 30
    while is_up(home):
        if time.monotonic() > deadline:
            raise TwoleversError(f"It does not end; its process is {record.pid}.")
        time.sleep(0.1)
    print("Ended.")


def status() -> bool:
    """Print a line each for Prefect, MLflow and the workers; whether all of them run."""
    return _print_status(current_record(Home()))


def _print_status(record: Record | None) -> bool:
    running = record.running if record else {}
    all_well = True
    workers = [name for name, entry in running.items() if entry.pool] or ["worker"]
    for name in [PREFECT, MLFLOW, *workers]:
        entry = running.get(name)
        well = entry is not None and _is_well(name, entry)
        all_well = all_well and well
        if entry is None:
            say(name, "not running")
            continue
        pid = f"pid {entry.pid}" if entry.pid else "elsewhere"
        state = f"since {entry.since}  {pid}" if well else "does not answer"
        say(name, f"{entry.where:<34}{state}")
    return all_well


def _is_well(name: str, entry: Running) -> bool:
    if entry.address.startswith("http"):
        return answers(name, entry.address)
    return entry.pid is None or is_alive(entry.pid)
