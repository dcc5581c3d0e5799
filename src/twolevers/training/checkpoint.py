"""The checkpoints of one run: written whole or not at all, few kept, the best one linked.

RUN/checkpoints/epoch-1/       a model folder that transformers loads
RUN/checkpoints/epoch-2/       the newest one also holds the trainer state
RUN/checkpoints/step-000123/   written between epochs, gone when a newer one is there
RUN/checkpoints/best           link to the epoch with the lowest validation loss
RUN/checkpoints/finished.json  what training came to, once it has finished
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError

from twolevers.errors import TrainingError
from twolevers.files import atomic_folder, read_json, write_json
from twolevers.records import TrainedModel, TrainingResult
from twolevers.training.trainer_state import STATE_FILES, load_state, remove_state

FOLDER = "checkpoints"
BEST = "best"
FINISHED = "finished.json"
Result = TypeVar("Result", bound=TrainedModel)
_NAME = re.compile(r"(epoch|step)-(\d+)")


def epoch_name(epoch: int) -> str:
    """`epoch` counted from 1."""
    return f"epoch-{epoch}"


def step_name(step: int) -> str:
    """`step`: optimizer steps done."""
    return f"step-{step:06d}"


def has_checkpoint(run_folder: Path) -> bool:
    """Whether fine-tuning in this run's folder can go on, or has finished."""
    checkpoints = Checkpoints(run_folder / FOLDER)
    return checkpoints.newest() is not None or checkpoints.finished(TrainingResult) is not None


class Checkpoints:
    """The folder of a run's checkpoints.

    Args:
        folder: made at the first write.
        keep: so many of the latest epochs stay; the best and the newest stay besides.
    """

    def __init__(self, folder: Path, keep: int = 1) -> None:
        self.folder, self.keep = folder, keep

    def all(self) -> list[Path]:
        """Every checkpoint, in no order."""
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]

    def newest(self) -> Path | None:
        """The checkpoint that training can go on from: the farthest one with trainer state."""
        ready = [path for path in self.all() if (path / STATE_FILES[0]).is_file()]
        return max(ready, key=lambda path: load_state(path).step, default=None)

    def write(self, name: str, fill: Callable[[Path], None], *, best: str | None) -> None:
        """A new checkpoint; then the link to the best, and older ones thinned out.

        Args:
            name: from `epoch_name` or `step_name`.
            fill: writes into the folder it is given what is kept, trainer state included.
            best: name of the best checkpoint so far, which may be this one.

        Raises:
            TrainingError: it could not be written (disk full); the older ones are untouched.
        """
        try:
            with atomic_folder(self.folder / name) as temporary:
                fill(temporary)
                for file in temporary.iterdir():
                    _sync(file)
            _sync(self.folder)
        except (OSError, SafetensorError) as error:
            free = shutil.disk_usage(_existing(self.folder)).free
            raise TrainingError(
                f"The checkpoint {self.folder / name} could not be written ({error}); "
                f"{free / 2**20:,.0f} MiB are free there. Older checkpoints are untouched. "
                "Make room, for example with `twolevers clean`, and resume the run."
            ) from error
        self.settle(name, best)

    def settle(self, newest: str, best: str | None) -> None:
        """Links the best, leaves trainer state in the newest only, removes what need not stay."""
        if best is not None:
            self._link_best(best)
        epochs = [path for path in self.all() if path.name.startswith("epoch-")]
        epochs.sort(key=lambda path: int(path.name.removeprefix("epoch-")))
        kept = {newest, best, *(path.name for path in epochs[-self.keep :])}
        for path in self.all():
            if path.name not in kept:
                remove_state(path)  # first, so that a half-removed folder is nobody's newest
                shutil.rmtree(path)
            elif path.name != newest:
                remove_state(path)

    def remove_leftovers(self) -> None:
        """Removes half-written folders that a kill left behind."""
        if self.folder.is_dir():
            for path in self.folder.glob(".*"):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def finish(self, result: TrainedModel, settings: dict[str, Any]) -> None:
        """Training is over: notes the result, then removes the trainer state."""
        record = {"result": result.model_dump(mode="json"), "settings": settings}
        write_json(self.folder / FINISHED, record)
        for path in self.all():
            remove_state(path)

    def finished(self, kind: type[Result]) -> tuple[Result, dict[str, Any]] | None:
        """What `finish` noted; None where training has not finished or its checkpoint is gone."""
        file = self.folder / FINISHED
        if not file.is_file():
            return None
        record = read_json(file)
        result = kind.model_validate(record["result"])
        # Found by name: the run's folder may have been moved since.
        places: dict[str, Any] = {
            field: self.folder / getattr(result, field).name
            for field in ("checkpoint", "best_checkpoint")
            if field in kind.model_fields
        }
        result = result.model_copy(update=places)
        return (result, record["settings"]) if result.checkpoint.is_dir() else None

    def _link_best(self, name: str) -> None:
        """A relative link, so that a run's folder can be moved; replaced in one go."""
        temporary = self.folder / f".{BEST}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(name, target_is_directory=True)
        temporary.replace(self.folder / BEST)


def _sync(path: Path) -> None:
    """Onto the disk; a rename that is there before its content would be worth nothing."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
