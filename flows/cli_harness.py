"""The command that has the evaluation harness ask a run's model: `lm-eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.option_flags import path_option
from flows.quick_imports import quick_imports

harness = typer.Typer()


@harness.command("lm-eval")
def lm_eval(
    tasks: Annotated[
        list[str], typer.Option("--tasks", metavar="TASK", help="repeat it, or separate by commas")
    ],
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="whose model")] = "latest",
    base: Annotated[
        bool, typer.Option("--base", help="the model as it was before fine-tuning")
    ] = False,
    task_folder: Annotated[
        Path | None, path_option("folder of task files of your own (YAML)")
    ] = None,
    num_fewshot: Annotated[
        int | None, typer.Option(min=0, help="examples before each question (default: the task's)")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="the first entries of each task (default: all)")
    ] = None,
    device: Annotated[str, typer.Option(help="the device lever")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="as JSON on standard output")] = False,
) -> None:
    """Likelihood benchmarks of lm-evaluation-harness on a run's model (extra: lm-eval)."""
    with quick_imports():
        from flows.harness import run_harness

    names = [name for given in tasks for name in given.split(",") if name]
    run_harness(
        run, names, base=base, folder=task_folder, num_fewshot=num_fewshot, limit=limit,
        device=device, precision=precision, as_json=json,
    )  # fmt: skip
