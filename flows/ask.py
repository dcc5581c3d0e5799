"""One instruction to one model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twolevers.classification.model import HEAD_FILE
from twolevers.data.prompt import Entry
from twolevers.device import find_device
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem
from twolevers.generation.answerer import Answerer
from twolevers.models.catalog import GPT2Config, find_model
from twolevers.models.fetch import fetch_weights
from twolevers.options import FineTuneOptions, GenerationOptions
from twolevers.progress import Silent
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import check_kind, check_model
from twolevers.tracking.queries import find_run
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.runs import read_run_options


def ask(
    instruction: str,
    text: str,
    *,
    run: str,
    base: bool,
    device: str,
    options: GenerationOptions,
    seed: int,
) -> str:
    """The answer of a run's model, tuned or base, in the prompt style that it was trained with.

    Raises:
        InputError: no such run, a run without a checkpoint, an empty instruction.
    """
    if not instruction.strip():
        raise InputError(Problem("instruction", instruction, "is empty", "say what to do"))
    asked = find_asked(run, base=base)
    answerer = Answerer(
        asked.path,
        asked.config,
        prompt_style=asked.trained.data.prompt_style,
        device=find_device(device),
    )
    [answer] = answerer.answer([Entry(instruction, text, output="")], options, seed=seed)
    return answer


@dataclass(frozen=True)
class Asked:
    """A run's model, tuned or base."""

    name: str
    """For people and programs: `gpt2-nano-68ca4ca4`, its base `gpt2-nano`."""
    path: Path
    config: GPT2Config | None
    """None: as stated in `path`."""
    trained: FineTuneOptions


def find_asked(run: str, *, base: bool) -> Asked:
    """The model that a run left, or the one that it began with.

    Raises:
        InputError: no such run, a run without a checkpoint.
    """
    home = writable_home()
    found = check_kind(find_run(run, home, load_settings()), run, names.FINE_TUNE, where="--run")
    if not base:
        check_model(found, run, where="--run")
    # A checkpoint folder that belongs to no run has no options: it is asked as the chapter does.
    trained = read_run_options(found.folder) if found.folder else FineTuneOptions()
    if not base:
        checkpoint = checkpoint_of(found, run)
        name = checkpoint.resolve().name
        if found.run_id:
            name = f"{find_model(trained.model).short_name}-{found.run_id[:8]}"
        return Asked(name, checkpoint, None, trained)
    if not found.folder:
        raise InputError(
            Problem("--base", run, "is a checkpoint of no run, its base is not known", "name a run")
        )
    path, config = _base(trained, home)
    return Asked(find_model(trained.model).short_name, path, config, trained)


def _base(trained: FineTuneOptions, home: Home) -> tuple[Path, GPT2Config]:
    weights = fetch_weights(trained.model, trained.weights, home, Silent())
    return weights.path, find_model(trained.model).config


def checkpoint_of(found: RunInfo, run: str) -> Path:
    """A run's newest checkpoint.

    Raises:
        InputError: it is not on this machine, or answers no instructions.
    """
    if found.checkpoint is None or not found.checkpoint.exists():
        raise InputError(
            Problem(
                "--run", run, "has no checkpoint on this machine", "choose from `twolevers runs`"
            )
        )
    if (found.checkpoint / HEAD_FILE).is_file():
        what = "classifies texts, it answers no instructions"
        way_out = f"ask it: twolevers classify --run {run} TEXT"
        raise InputError(Problem("--run", run, what, way_out))
    return found.checkpoint
