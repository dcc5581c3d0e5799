"""How gpt2-nano is made."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from tasks.progress import stage_progress
from twolevers.embedded.nano import pretrain_nano
from twolevers.training.pretrain import PretrainOptions


@task(task_run_name="pretrain gpt2-nano for {options.steps} steps")
def pretrain(folder: Path, options: PretrainOptions, checkpoint_steps: int) -> float:
    """The pretrained folder, written; returns the mean loss of the last steps."""
    with stage_progress() as progress:
        progress.start("pretrain", options.steps, "steps")
        pretrained = pretrain_nano(
            folder,
            options=options,
            checkpoint_steps=checkpoint_steps,
            on_step=lambda step, _total, loss, rate: progress.advance(
                step, loss=loss, tokens_per_second=rate
            ),
        )
    return pretrained.last_loss
