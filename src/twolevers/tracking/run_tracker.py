"""The MLflow side of the Tracker protocol: reports one run by its id.

Never uses mlflow's active run, which is global to the process.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from twolevers.classification.records import LabelledData
from twolevers.errors import first_line
from twolevers.files import write_json
from twolevers.records import DatasetFile, TokenisedData
from twolevers.settings import Home
from twolevers.time_limit import within
from twolevers.tracking import artifacts, names, registry, traces
from twolevers.tracking.curves import metric_history
from twolevers.tracking.leftovers import FILES_NAME, keep_file, send_files
from twolevers.tracking.store import Store
from twolevers.tracking.writer import Writer

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run

Warn = Callable[[str], None]
CLOSE_SECONDS = 30.0
UPLOAD_SECONDS = 600.0
FILE_SECONDS = 60.0
RETRY_SECONDS = 2.0
"""How long to wait for a store that did not answer when it was last asked."""
LOCK_SECONDS = 60.0
RECORD_KEYS = ("num_train", "num_val", "num_test", "num_rows", "num_dropped", "num_cut")


class MlflowTracker:
    """Reports one run to MLflow. No method raises because of MLflow, none but `flush` waits long.

    Metrics, parameters and tags are sent in the background; files are stored at once.
    """

    def __init__(
        self,
        store: Store,
        run: Run,
        home: Home,
        *,
        warn: Warn,
        upload_seconds: float = UPLOAD_SECONDS,
        resumed: bool = False,
    ) -> None:
        self.run_id: str = run.info.run_id
        self.folder = home.run_folder(self.run_id)
        """The run's own folder on this disk."""
        self.page = store.run_page(self.run_id)
        """Address of the run in the UI; without a server the part after the server's address."""
        self._client, self._warn, self._upload_seconds = store.client, warn, upload_seconds
        self._experiment_id: str = run.info.experiment_id
        self._kind, self._name = run.data.tags.get(names.KIND), run.info.run_name
        self._lock = home.mlflow / ".registry.lock"
        self._artifacts = artifacts.local_path(run.info.artifact_uri)
        self._tables: list[dict[str, str]] = json.loads(
            run.data.tags.get("mlflow.loggedArtifacts", "[]")
        )
        self._files_wait = False
        self.writer = Writer(store.client, run, folder=self.folder, warn=warn, resumed=resumed)

    def log_params(self, params: Mapping[str, object]) -> None:
        """Flat parameters; a nested mapping becomes `outer.inner`."""
        self.writer.put_params(_flat(params))

    def log_metrics(self, metrics: Mapping[str, float], *, step: int, tokens: int = 0) -> None:
        """Metrics of one step; `tokens`, where given, is logged as `train/tokens`."""
        self.writer.put_metrics(metrics, step, tokens)

    def read_metrics(self, metrics: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
        """(step, value) of what MLflow holds of each metric; empty where it does not answer."""
        self.flush(RETRY_SECONDS if self.writer.failing else CLOSE_SECONDS)
        found: dict[str, list[tuple[int, float]]] = {name: [] for name in metrics}

        def read() -> None:
            for name in found:
                found[name] = metric_history(self._client, self.run_id, name)

        self._try("the course of its metrics is not drawn", read)
        return found

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Tags of the run; a later value replaces an earlier one."""
        self.writer.put_tags(tags)

    def set_description(self, markdown: str) -> None:
        """What the run's page shows on top."""
        self.set_tags({names.DESCRIPTION: markdown})

    def log_file(self, path: Path, folder: str = "") -> None:
        """One file, stored under `folder` of the run's artifacts: now, or when MLflow answers."""

        def store() -> None:
            self._client.log_artifact(self.run_id, str(path), folder or None)

        otherwise = f"{path} is not stored with the run, it stays where it is"
        if self._artifacts:
            self._try(otherwise, store)
            return
        try:
            if self.writer.failing:
                raise TimeoutError("it did not answer before")
            within(min(FILE_SECONDS, self._upload_seconds), store)
            (self.folder / FILES_NAME / folder / path.name).unlink(missing_ok=True)  # an older one
        except Exception as error:
            self._try(otherwise, lambda: keep_file(self.folder, path, folder))
            if not self._files_wait:
                self._warn(
                    f"MLflow does not take files ({first_line(error)}). They wait in "
                    f"{self.folder / FILES_NAME} and are sent when it answers, or at the start of "
                    "the next run."
                )
            self._files_wait = True

    def log_table(self, table: pd.DataFrame, name: str) -> None:
        """A data frame that the UI shows as a table; the same name again replaces it."""
        name = name if name.endswith(".json") else f"{name}.json"
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / Path(name).name
            path.write_text(artifacts.table_json(table), encoding="utf-8")
            self.log_file(path, str(Path(name).parent) if "/" in name else "")
        entry = {"path": name, "type": "table"}
        if entry not in self._tables:
            self._tables.append(entry)
            self.set_tags({"mlflow.loggedArtifacts": json.dumps(self._tables)})

    def log_answers(self, role: str, answers: Sequence[traces.ScoredAnswer]) -> None:
        """Answers of the base or of the tuned model as MLflow's evaluation pages show them, in
        place of those of before: in this run if it is an evaluation, else in one beside it."""

        def log() -> None:
            run_id = self.run_id
            if self._kind != names.EVALUATION:
                place = self._client, self._experiment_id, self.run_id
                run_id = traces.run_of_answers(*place, role, self._name)
            traces.log_answers(self._client, self._experiment_id, run_id, answers)

        self._try("its answers do not stand in MLflow's evaluation pages", log)

    def log_dataset_input(self, dataset: DatasetFile, data: TokenisedData | LabelledData) -> None:
        """The data set as an input of the run: name, source, hash and counts."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        counts = {key: getattr(data, key) for key in RECORD_KEYS}
        remote = dataset.name.startswith(("http://", "https://"))
        source = {"url": dataset.name} if remote else {"uri": str(dataset.path)}
        entity = Dataset(
            name=dataset.name[:500],
            # MLflow keeps 36 characters; the whole hash stands in the profile.
            digest=dataset.sha256[:36],
            source_type="http" if remote else "local",
            source=json.dumps(source),
            profile=json.dumps({"sha256": dataset.sha256, "verified": dataset.verified, **counts}),
        )
        context = [InputTag("mlflow.data.context", "training")]
        self._try(
            "the data set is not noted as an input",
            lambda: self._client.log_inputs(self.run_id, [DatasetInput(entity, context)]),
        )
        self.set_tags({"twolevers.data_sha256": dataset.sha256})

    def log_checkpoint(self, path: Path, *, step: int, metrics: Mapping[str, float]) -> None:
        """Note a checkpoint and point to it. Its files are stored when the run finishes, if it
        still exists by then: what `keep_checkpoints` removed would only fill the disk."""
        path = path.resolve()
        try:
            artifacts.record_checkpoint(self.folder, path, step, metrics)
        except OSError as error:
            self._warn(f"The checkpoint {path} is not noted: {first_line(error)}")
        self.set_tags({names.CHECKPOINT: str(path)})
        self.send_soon()

    def send_soon(self) -> None:
        """What was logged so far goes out without waiting for more: whoever resumes from a
        checkpoint finds the metrics of all steps before."""
        self.writer.send_soon()

    def log_summary(self, summary: Mapping[str, Any], *, step: int) -> None:
        """The run's summary (keys: `names.SUMMARY_KEYS`) as a file, its figures as metrics."""
        try:
            write_json(self.folder / names.SUMMARY_FILE, dict(summary))
            self.log_file(self.folder / names.SUMMARY_FILE)
        except OSError as error:
            self._warn(f"The summary is not written: {first_line(error)}")
        figures = {key: summary.get(key) for key in names.FIGURES}
        for role in names.ROLES:
            scored = summary.get(role) or {}
            for score, value in (scored | (scored.get("other") or {})).items():
                figures[names.score_metric(role, score)] = value
        known = {key: value for key, value in figures.items() if isinstance(value, (int, float))}
        self.log_metrics(known, step=step)

    def store_checkpoints(self) -> None:
        """Store the checkpoints that still exist as artifacts and register the best; without room
        or in too much time they are only pointed to, and that is said."""
        records = artifacts.recorded_checkpoints(self.folder)
        records = [record for record in records if Path(record["path"]).is_dir()]
        paths = [Path(record["path"]) for record in records]
        if not paths:
            return
        options = registry.read_options(self.folder)
        servable = []

        def add(folder: Path) -> None:
            if options:
                done = self._try(
                    "a checkpoint is stored, but cannot be served",
                    lambda: registry.make_servable(folder, options),
                )
                servable.append(done)

        def store() -> None:
            if self._artifacts:
                artifacts.mirror_checkpoints(paths, self._artifacts, add)
                return
            artifacts.upload_checkpoints(
                paths,
                lambda folder, to: self._client.log_artifacts(self.run_id, folder, to),
                self.folder,
                add,
            )

        where = ", ".join(str(path) for path in paths)
        if not self._try(f"checkpoints are not stored with the run, they stay at {where}", store):
            return
        self.log_file(self.folder / artifacts.RECORDS)
        if servable and all(servable):
            self._register(records)

    def _register(self, records: list[dict[str, Any]]) -> None:
        self._lock.parent.mkdir(parents=True, exist_ok=True)

        def register() -> None:
            # The registry reads what the run reported.
            if not self.flush(RETRY_SECONDS if self.writer.failing else CLOSE_SECONDS):
                raise TimeoutError("it did not take what the run reported")
            with FileLock(self._lock, timeout=LOCK_SECONDS):  # two runs may end at once
                became = registry.register(self._client, self.run_id, records)
            if became:
                self.set_tags({names.REGISTERED: became})

        self._try("the run's model is not registered", register)

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Send what has gathered; whether it all arrived within `seconds`."""
        return self.writer.flush(seconds)

    def close(self, status: str | None, seconds: float) -> None:
        """Send what waits, then the status; what MLflow does not take stays in the run's folder.

        Args:
            seconds: how long to wait while nothing at all arrives.
        """
        if self._files_wait and self.writer.flush(RETRY_SECONDS):
            with contextlib.suppress(Exception):  # they wait on, and that was said
                within(
                    self._upload_seconds,
                    lambda: send_files(self._client, self.run_id, self.folder),
                )
        self.writer.close(status, seconds)

    def _try(self, otherwise: str, call: Callable[[], object]) -> bool:
        """Whether `call` succeeded; behind a server it may take `upload_seconds`."""
        try:
            if self._artifacts:
                call()
            else:
                within(self._upload_seconds, call)
        except Exception as error:
            self._warn(f"MLflow: {otherwise} ({first_line(error)}).")
            self.set_tags({"twolevers.not_stored": otherwise})
            return False
        return True


def _flat(params: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in params.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
