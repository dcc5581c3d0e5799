"""Opening and closing MLflow runs: one fine-tuning is one run, closed whatever happens."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twolevers.errors import InputError, Problem, RunStopped, TwoleversError, first_line
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.alive import LOCK_TAG, RunLock, close_orphans_in, is_alive
from twolevers.tracking.run_tracker import CLOSE_SECONDS, UPLOAD_SECONDS, MlflowTracker, Warn
from twolevers.tracking.store import Store, open_store
from twolevers.tracking.system_metrics import sampled
from twolevers.versions import environment_tags, user_name

if TYPE_CHECKING:
    from mlflow.entities import Run

_opened: dict[str, MlflowTracker] = {}
"""The runs that this process has opened, by id. Stages share the tracker: they ask the server for
nothing, so one that is away when a stage begins stops no stage."""


@contextmanager
def open_run(
    *,
    home: Home,
    settings: Settings,
    name: str,
    params: Mapping[str, object] | None = None,
    tags: Mapping[str, str] | None = None,
    resume: str | None = None,
    warn: Warn | None = None,
    kind: str = names.FINE_TUNE,
    close_seconds: float = CLOSE_SECONDS,
    upload_seconds: float = UPLOAD_SECONDS,
) -> Iterator[MlflowTracker]:
    """Open an MLflow run, or reopen the one with id `resume`; close it whatever happens.

    FINISHED at the end of the block; FAILED for an Exception, its message in the tag
    `twolevers.error`; KILLED for RunStopped and everything that is no Exception (Ctrl-C,
    `sys.exit`, a cancelling scheduler). What a kill left RUNNING before is closed first.

    Args:
        params: all of them, flat. On a resumed run a changed one becomes the tag `changed.…`.
        tags: besides those about machine, versions and commit, which are set here.
        warn: told in one line what MLflow did not take.
        close_seconds: how long closing may wait for MLflow.
        upload_seconds: how long storing one thing behind a server may take.

    Raises:
        InputError: the store cannot be used, or the run to resume is gone or still running.
        TwoleversError: the tracking server does not answer.
    """
    warn = warn or logging.getLogger(__name__).warning
    store = open_store(home, settings)
    lock = RunLock(home)
    lock.take(
        seconds=10
    )  # nobody knows its name yet, but whoever looks at all may hold it a moment
    try:
        try:
            close_orphans_in(store, home, warn)
        except Exception as error:
            warn(f"Runs that a kill left open are not closed yet: {first_line(error)}")
        all_tags = _own_tags(lock.name, kind) | dict(tags or {})
        run = _start(store, home, name, all_tags, resume)
        tracker = MlflowTracker(
            store, run, home, warn=warn, upload_seconds=upload_seconds, resumed=bool(resume)
        )
        _opened[tracker.run_id] = tracker
        began = run.info.start_time / 1000
        try:
            tracker.log_params(params or {})
            with sampled(lambda figures, at: tracker.log_metrics(figures, step=at), began):
                yield tracker
        except BaseException as error:
            stopped = isinstance(error, RunStopped) or not isinstance(error, Exception)
            tracker.set_tags({names.ERROR: first_line(error)})
            tracker.close("KILLED" if stopped else "FAILED", close_seconds)
            raise
        finally:
            del _opened[tracker.run_id]
        _finish(tracker, close_seconds)
    finally:
        lock.release()


@contextmanager
def attach_run(
    *, home: Home, settings: Settings, run_id: str, warn: Warn | None = None
) -> Iterator[MlflowTracker]:
    """A tracker for a run that is open elsewhere (in the flow, for a task): status untouched.

    Args:
        warn: as for `open_run`; where this process opened the run, it is told what that was.
    """
    if tracker := _opened.get(run_id):
        yield tracker
        tracker.writer.send_soon()
        return
    store = open_store(home, settings)
    run = store.client.get_run(run_id)
    tracker = MlflowTracker(
        store, run, home, warn=warn or logging.getLogger(__name__).warning, resumed=True
    )
    try:
        yield tracker
    finally:
        tracker.close(None, CLOSE_SECONDS)


def _finish(tracker: MlflowTracker, close_seconds: float) -> None:
    try:
        tracker.store_checkpoints()
    except BaseException:  # Ctrl-C while weights are uploaded
        tracker.close("KILLED", close_seconds)
        raise
    tracker.close("FINISHED", close_seconds)


def _start(store: Store, home: Home, name: str, tags: dict[str, str], resume: str | None) -> Run:
    from mlflow.exceptions import MlflowException

    try:
        if not resume:
            return store.client.create_run(store.experiment_id, tags=tags, run_name=name)
        run = store.client.get_run(resume)
        if run.info.lifecycle_stage == "deleted":
            raise _cannot_resume(resume, "was deleted")
        if run.info.status == "RUNNING" and is_alive(run, store, home):
            raise _cannot_resume(resume, "is still running")
        before = run.data.tags.get(names.PREFECT_FLOW_RUN_ID, "")
        now = tags.get(names.PREFECT_FLOW_RUN_ID, "")
        if now:
            ids = dict.fromkeys([*filter(None, before.split(",")), now])
            tags[names.PREFECT_FLOW_RUN_ID] = ",".join(ids)
        for key, value in tags.items():
            store.client.set_tag(resume, key, value)
        if names.ERROR in run.data.tags:
            store.client.delete_tag(resume, names.ERROR)
        store.client.update_run(resume, status="RUNNING")
        return store.client.get_run(resume)
    except MlflowException as error:
        if resume and error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise _cannot_resume(resume, "is not in the tracking store") from error
        raise TwoleversError(
            f"MLflow at {store.uri} does not open a run ({first_line(error)})."
        ) from error


def _cannot_resume(run_id: str, what: str) -> InputError:
    return InputError(Problem("resume", run_id, what, "see the runs there are: twolevers runs"))


def _own_tags(lock: str, kind: str) -> dict[str, str]:
    environment = environment_tags()
    tags = {
        LOCK_TAG: lock,
        names.KIND: kind,
        names.HOST: platform.node(),
        "twolevers.pid": str(os.getpid()),
        "mlflow.user": user_name(),
        "mlflow.source.name": "twolevers",
        "mlflow.source.type": "LOCAL",
        **environment,
    }
    if "git.commit" in environment:
        tags["mlflow.source.git.commit"] = environment["git.commit"]
    return tags
