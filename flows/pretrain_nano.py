"""Makes the weights that ship: `python -m flows.pretrain_nano --output DIR [--steps N]`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from prefect import flow

from tasks.pretrain import pretrain
from twolevers.training.pretrain import PretrainOptions

DEFAULTS = PretrainOptions()


@flow(name="pretrain-nano", log_prints=False)
def pretrain_nano(
    output: Path, steps: int = DEFAULTS.steps, checkpoint_steps: int = 1_000
) -> float:
    """Pretrain gpt2-nano on the plain text of its small world.

    Args:
        output: The folder to write; replaced at the end.
        steps: Optimizer steps; the shipped weights took the default.
        checkpoint_steps: Write the model as it stands every so many steps; 0 for never.
    """
    return pretrain(output, replace(DEFAULTS, steps=steps), checkpoint_steps)


def main(
    output: Annotated[Path, typer.Option(help="Folder to write; replaced at the end.")],
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = DEFAULTS.steps,
) -> None:
    """Pretrain gpt2-nano; 25 minutes on 2 cores with the default steps."""
    typer.echo(f"last loss {pretrain_nano(output, steps):.4f}")


if __name__ == "__main__":
    typer.run(main)
