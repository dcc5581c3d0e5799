"""What is known of one run, and where its files lie on this disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from twolevers.settings import Home
from twolevers.tracking import artifacts, names

if TYPE_CHECKING:
    from mlflow.entities import Run


@dataclass(frozen=True)
class RunInfo:
    """A run as the tracking store knows it, or a checkpoint folder that belongs to none."""

    run_id: str | None
    name: str = ""
    status: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    folder: Path | None = None
    """The run's own folder; it may lie on another machine."""
    artifacts: Path | None = None
    """The run's artifacts where they are files of this home."""
    checkpoint: Path | None = None
    """The checkpoint that was named, else the run's newest; None where none is on this disk."""

    @property
    def kind(self) -> str | None:
        """`fine-tune`, `classify`, `evaluation`, `run-time-table`; None of no run of ours."""
        return self.tags.get(names.KIND)

    @property
    def model(self) -> str | None:
        return self.params.get("model")

    @property
    def device(self) -> str | None:
        """`cpu`, `cuda:0`; the hardware's own name is the tag `twolevers.hardware`."""
        return self.tags.get("twolevers.device") or self.params.get("device")

    @property
    def precision(self) -> str | None:
        return self.params.get("precision")

    @property
    def fingerprint(self) -> str | None:
        return self.tags.get(names.FINGERPRINT)

    @property
    def flow_run_ids(self) -> list[str]:
        """Prefect flow runs that worked on it, the newest last."""
        ids = self.tags.get(names.PREFECT_FLOW_RUN_ID, "").split(",")
        return [flow_run_id for flow_run_id in ids if flow_run_id]

    @property
    def prefect_flow_run_id(self) -> str | None:
        return self.flow_run_ids[-1] if self.flow_run_ids else None


def run_info(run: Run, home: Home) -> RunInfo:
    """What the store says of a run, and where its files lie here."""
    run_id = str(run.info.run_id)
    tags = dict(run.data.tags)
    pointed = Path(tags[names.CHECKPOINT]) if names.CHECKPOINT in tags else None
    info = RunInfo(
        run_id=run_id,
        name=run.info.run_name or "",
        status=run.info.status,
        started=moment(run.info.start_time),
        ended=moment(run.info.end_time),
        params=dict(run.data.params),
        tags=tags,
        metrics=dict(run.data.metrics),
        folder=home.run_folder(run_id),
        artifacts=artifacts.local_path(run.info.artifact_uri or "mlflow-artifacts:/"),
    )
    return replace(info, checkpoint=_newest_checkpoint(info, pointed))


def _newest_checkpoint(info: RunInfo, pointed: Path | None) -> Path | None:
    """The one pointed to; after the home was moved, the same one at the new place."""
    if pointed is None:
        return None
    places = [pointed]
    if info.folder:
        places.append(info.folder / artifacts.FOLDER / pointed.name)
    if info.artifacts:
        places.append(info.artifacts / artifacts.FOLDER / pointed.name)
    return next((place for place in places if place.is_dir()), None)


def moment(milliseconds: int | None) -> datetime | None:
    """A time of MLflow's in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
