"""A thread that sends what a run reports, so that the training loop never waits.

`put` appends to a queue and returns. The thread sends what has gathered about once a second, and
less often where much gathers: sending 100 metrics costs some 10 to 25 ms of processor time, which
is kept below 1 % of the time that passes, but for one sending a minute. While the store does not
answer it tries again, ever more rarely, and nothing is lost; what is still unsent when the run
closes goes into a file in the run's folder (see `leftovers`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twolevers.errors import first_line
from twolevers.tracking.leftovers import REFUSALS, write_leftovers
from twolevers.tracking.pacing import Pacing
from twolevers.tracking.values import (
    MAX_PARAM,
    MAX_TAG,
    clean_key,
    cut,
    finite,
    leftover_entries,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

FLUSH_SECONDS = 1.0
MAX_METRICS, MAX_PARAMS, MAX_TAGS = 800, 50, 50


class Writer:
    """Sends metrics, parameters and tags of one run in the background."""

    def __init__(
        self,
        client: MlflowClient,
        run: Run,
        *,
        folder: Path,
        warn: Callable[[str], None],
        resumed: bool = False,
    ) -> None:
        self.run_id = run.info.run_id
        self._client, self._folder, self._warn = client, folder, warn
        self._params = dict(run.data.params)
        self._tags = dict(run.data.tags)
        self._logged = list(run.data.metrics) if resumed else []
        self._last_step: dict[str, int] = {}
        self._queue: deque[tuple[Any, ...]] = deque()
        self._lock = threading.Lock()  # guards the four below
        self._metrics: list[Metric] = []
        self._new_params: dict[str, str] = {}
        self._new_tags: dict[str, str] = {}
        self._refused: list[dict[str, Any]] = []
        self._status: tuple[str, int] | None = None
        self._wake, self._stop, self._idle = (threading.Event() for _ in range(3))
        self._sent = 0
        self._closing = self._gone = False
        self._pacing = Pacing()
        self._thread = threading.Thread(target=self._loop, name="mlflow-writer", daemon=True)
        self._thread.start()

    def put_metrics(self, metrics: Mapping[str, float], step: int, tokens: int) -> None:
        """Returns in microseconds; the time noted is now, not when it is sent."""
        self._queue.append(("metrics", time.time(), step, tokens, dict(metrics)))

    def put_params(self, params: Mapping[str, object]) -> None:
        self._queue.append(("params", dict(params)))

    def put_tags(self, tags: Mapping[str, str]) -> None:
        self._queue.append(("tags", dict(tags)))

    def send_soon(self) -> None:
        """Send without waiting for the right moment; returns at once."""
        self._wake.set()

    @property
    def failing(self) -> bool:
        """Whether the store did not answer when it was last asked."""
        return self._pacing.failures > 0

    def flush(self, seconds: float) -> bool:
        """Send now; whether all was sent within `seconds`."""
        self._idle.clear()
        self._wake.set()
        return self._idle.wait(seconds) and not self._queue

    def close(self, status: str | None, seconds: float) -> bool:
        """Send the rest, then the status; what is unsent goes into a file.

        Args:
            seconds: how long to wait while nothing at all arrives.

        Returns:
            Whether everything arrived.
        """
        if status:
            self._status = (status, int(time.time() * 1000))
        self._closing = True
        self._wake.set()
        try:
            before = -1
            while self._thread.is_alive() and self._sent != before:
                before = self._sent
                self._thread.join(seconds)
        finally:  # also when Ctrl-C is pressed while waiting
            self._stop.set()
            self._wake.set()
            arrived = self._keep_unsent()
        return arrived

    # The rest runs in the thread.

    def _loop(self) -> None:
        while not self._stop.is_set():
            forced = self._wake.wait(0 if self._closing else FLUSH_SECONDS)
            self._wake.clear()
            arrived = False
            try:
                self._collect()
                if forced or self._closing or self._is_due():
                    arrived = self._send_all()
            except Exception as error:  # nothing that goes wrong here may end the thread
                self._failed(error)
            if arrived and not self._queue:
                self._idle.set()
                if self._closing:
                    return
            elif self._closing and self._pacing.failures:
                self._stop.wait(0.5)

    def _is_due(self) -> bool:
        gathered = len(self._metrics) + len(self._new_params) + len(self._new_tags)
        return self._pacing.is_due(gathered)

    def _collect(self) -> None:
        """From the queue to what MLflow takes."""
        self._find_last_steps()
        while self._queue:
            with self._lock, contextlib.suppress(IndexError):
                kind, *rest = self._queue.popleft()
                if kind == "tags":
                    for key, text in rest[0].items():
                        self._add_tag(key, text)
                elif kind == "params":
                    for key, value in rest[0].items():
                        self._add_param(clean_key(key), cut(value, MAX_PARAM))
                else:
                    self._add_metrics(*rest)

    def _add_metrics(
        self, moment: float, step: int, tokens: int, values: dict[str, object]
    ) -> None:
        from mlflow.entities import Metric

        if tokens:
            values.setdefault("train/tokens", tokens)
        for key, value in values.items():
            key = clean_key(key)
            number = finite(value)
            if number is None:
                if f"not_finite.{key}" not in self._tags:
                    self._add_tag(f"not_finite.{key}", f"step {step}: {value}")
            elif step > self._last_step.get(key, -1):
                self._metrics.append(Metric(key, number, int(moment * 1000), int(step)))

    def _find_last_steps(self) -> None:
        """After a resume: steps of training that were logged already are not logged again."""
        while self._logged:
            key = self._logged[-1]
            if key.startswith(("train/", "val/")):
                history = self._client.get_metric_history(self.run_id, key)
                self._last_step[key] = max((metric.step for metric in history), default=-1)
            self._logged.pop()

    def _add_param(self, key: str, value: str) -> None:
        if key not in self._params:
            self._params[key] = self._new_params[key] = value
        elif self._params[key] != value or f"changed.{key}" in self._tags:
            self._add_tag(f"changed.{key}", value)

    def _add_tag(self, key: str, text: object) -> None:
        key = clean_key(key)
        self._tags[key] = self._new_tags[key] = cut(text, MAX_TAG)

    def _send_all(self) -> bool:
        """Whether all of it arrived or was refused for good."""
        self._pacing.try_now()
        while self._metrics or self._new_params or self._new_tags:
            if self._stop.is_set():
                return False
            with self._lock:
                metrics = self._metrics[:MAX_METRICS]
                params = dict(list(self._new_params.items())[:MAX_PARAMS])
                tags = dict(list(self._new_tags.items())[:MAX_TAGS])
            started = time.thread_time()
            if not self._send(metrics, params, tags):
                return False
            self._sent += 1
            sent = len(metrics) + len(params) + len(tags)
            self._pacing.has_cost(time.thread_time() - started, sent)
            with self._lock:
                del self._metrics[: len(metrics)]
                for key in params:
                    self._new_params.pop(key, None)
                for key, text in tags.items():
                    if self._new_tags.get(key) == text:
                        del self._new_tags[key]
        if self._closing and self._status and not self._queue:
            try:
                self._client.set_terminated(self.run_id, *self._status)
            except Exception as error:
                return self._failed(error)
            self._status = None
        return True

    def _send(self, metrics: list[Any], params: dict[str, str], tags: dict[str, str]) -> bool:
        from mlflow.entities import Param, RunTag

        try:
            self._client.log_batch(
                self.run_id,
                metrics=metrics,
                params=[Param(key, value) for key, value in params.items()],
                tags=[RunTag(key, text) for key, text in tags.items()],
            )
        except Exception as error:
            if getattr(error, "error_code", None) not in REFUSALS:
                return self._failed(error)
            self._sort_out(metrics, params, tags, error)
        if self._pacing.failures:
            self._pacing.failures = 0
            self._warn("MLflow answers again; what had gathered is being sent.")
        return True

    def _sort_out(
        self,
        metrics: list[Any],
        params: dict[str, str],
        tags: dict[str, str],
        error: Exception,
    ) -> None:
        """A batch was refused: send its parts alone, and keep those that are refused again."""
        from mlflow.entities import Param, RunTag

        parts: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if metrics:
            parts.append(({"metrics": metrics}, leftover_entries(metrics, {}, {})))
        for key, value in params.items():
            parts.append(({"params": [Param(key, value)]}, leftover_entries([], {key: value}, {})))
        for key, text in tags.items():
            parts.append(({"tags": [RunTag(key, text)]}, leftover_entries([], {}, {key: text})))
        for arguments, entries in parts:
            try:
                if not self._gone:
                    self._client.log_batch(self.run_id, **arguments)
                    continue
            except Exception as again:
                error = again
            if not self._refused:
                self._gone = self._is_gone()
                self._warn(f"MLflow refused part of what the run reported: {first_line(error)}")
            with self._lock:
                self._refused += entries

    def _is_gone(self) -> bool:
        """Whether the run was deleted while it ran."""
        try:
            return bool(self._client.get_run(self.run_id).info.lifecycle_stage == "deleted")
        except Exception:
            return True

    def _failed(self, error: Exception) -> bool:
        self._pacing.failures += 1
        if self._pacing.failures == 1:
            self._warn(
                f"MLflow does not take what the run reports ({first_line(error)}). Training goes "
                "on; it is kept and sent later."
            )
        return False

    def _keep_unsent(self) -> bool:
        """From the closing thread: write what is left into the run's folder, and say so.

        Returns:
            Whether nothing was left.
        """
        try:
            self._logged = []  # too late to ask which steps were logged
            self._collect()
            with self._lock:
                unsent = leftover_entries(self._metrics, self._new_params, self._new_tags)
                entries = [*self._refused, *unsent]
            if self._status:
                status, end_time = self._status
                entries.append({"kind": "status", "status": status, "end_time": end_time})
            if not entries:
                return True
            path = write_leftovers(self._folder, entries)
            self._warn(f"MLflow did not take everything; the rest lies in {path}.")
        except Exception as error:
            self._warn(f"Part of what the run reported is lost: {first_line(error)}")
        return False
