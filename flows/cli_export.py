"""The command that hands a model to other programs: `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.option_flags import path_option

exporting = typer.Typer()


@exporting.command()
def export(
    output: Annotated[Path, path_option("folder (hf) or file (gguf) to write")],
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="MLflow run id, Prefect flow run id, a unique prefix of either, a checkpoint "
            "folder, or latest",
        ),
    ] = "latest",
    form: Annotated[
        str,
        typer.Option(
            "--format", help="hf: a folder that transformers loads; gguf: a file for llama.cpp"
        ),
    ] = "hf",
    force: Annotated[bool, typer.Option("--force", help="replace what is there")] = False,
) -> None:
    """Write a run's fine-tuned model for other programs, in float32."""
    from flows.quick_imports import quick_imports

    with quick_imports():
        from flows.exporting import export_run

    export_run(run, form, output, force)
