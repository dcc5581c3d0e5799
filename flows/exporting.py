"""`twolevers export`: a run's checkpoint in another program's format."""

from __future__ import annotations

from pathlib import Path

from flows.ask import checkpoint_of
from twolevers.environment import writable_home
from twolevers.models.export import export_model
from twolevers.settings import load_settings
from twolevers.tracking.kinds import check_model
from twolevers.tracking.queries import find_run


def export_run(run: str, form: str, output: Path, force: bool) -> None:
    """Write it and say where.

    Raises:
        InputError: no such run, one without a checkpoint, or an output that cannot be written.
    """
    found = check_model(find_run(run, writable_home(), load_settings()), run, where="--run")
    checkpoint = checkpoint_of(found, run)
    name = f"{found.model} fine-tuned" if found.model else "GPT-2 fine-tuned"
    # A checkpoint folder that belongs to no run does not say how it was trained.
    style = found.params.get("prompt_style")
    export_model(checkpoint, form, output, name=name, prompt_style=style, force=force)
    print(f"Written to {output}")
