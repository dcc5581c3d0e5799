"""A tracked run of any kind: opened before its first stage, what was asked for kept in its folder,
and closed with a word about how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from twolevers.device import Device
from twolevers.errors import NO_ROOM, InputError, RunStopped, no_room
from twolevers.files import read_json, write_json
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import resume_command
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.pages import flow_run_tags
from twolevers.tracking.run_tracker import Warn


@contextmanager
def tracked_run(
    kind: str,
    name: str,
    *,
    asked: BaseModel,
    file_name: str,
    params: Mapping[str, object],
    tags: Mapping[str, str],
    flow_run_id: str | None,
    reopen: str | None,
    warn: Warn | None,
    stopped: str = "Stopped.",
) -> Iterator[tuple[str, Path]]:
    """Open a run, or the one with id `reopen` again; its id and its folder.

    Args:
        kind: one of `names`.
        asked: kept as JSON in the run's folder and with MLflow.
        file_name: of `asked`.
        tags: besides those of the flow run, which are set here.
        warn: told in one line what MLflow did not take, from any thread.
        stopped: what to say of a run that Ctrl-C or SIGTERM ended, anywhere in the block; where it
            can go on, the command that continues it follows.

    Raises:
        RunStopped: the run was asked to stop.
        TwoleversError: the tracking store cannot be used, or there is no room on the disk.
    """
    home = Home()
    with open_run(
        home=home,
        settings=load_settings(),
        name=name,
        params=params,
        tags={**tags, **flow_run_tags(flow_run_id)},
        resume=reopen,
        warn=warn,
        kind=kind,
    ) as tracker:
        run_id, folder = tracker.run_id, home.run_folder(tracker.run_id)
        command = resume_command(kind, run_id)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / file_name
        before = read_json(file) if reopen and file.is_file() else None
        write_json(file, asked.model_dump(mode="json"))
        tracker.log_file(file)
        try:
            yield run_id, folder
        except BaseException as error:
            if before is not None and isinstance(error, InputError):
                write_json(file, before)  # what was asked for is refused: it goes on as it was
                tracker.log_file(file)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise no_room(error, command and f"go on: {command}") from error
            # Whatever is no Exception asks to stop (Ctrl-C, a scheduler's termination signal), but
            # for SystemExit: so ends a run whose log nobody reads any more, its worker being dead.
            crashed = isinstance(error, Exception | SystemExit)
            if crashed and not isinstance(error, RunStopped):
                raise
            reason = str(error) if isinstance(error, RunStopped) else stopped
            go_on = f"\nContinue with: {command}" if command else ""
            raise RunStopped(reason + go_on) from error


def device_tags(device: Device) -> dict[str, str]:
    """What a run computes on, as timings are compared by."""
    return {
        "twolevers.device": device.name,
        names.HARDWARE: device.hardware,
        names.THREADS: str(device.threads),
    }
