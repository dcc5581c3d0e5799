"""The run-time table: one fine-tuning for every model on every device."""

from __future__ import annotations

from typing import Annotated

from prefect import flow
from prefect.runtime import flow_run
from pydantic import Field

from flows.form import Option
from tasks.fetch import fetch_dataset
from tasks.run_times import plan_table, show_table, time_cell
from twolevers.grid import Grid, GridCell
from twolevers.options import (
    FROM_SETTINGS,
    DataOptions,
    FineTuneOptions,
    GenerationOptions,
    Precision,
    RunOptions,
    TrainingOptions,
)


def run_name() -> str:
    """`2 models × 1 device`."""
    asked = flow_run.parameters
    counts = {what: len(asked.get(what, [FROM_SETTINGS])) for what in ("models", "devices")}
    return " × ".join(
        f"{count} {what if count != 1 else what[:-1]}" for what, count in counts.items()
    )


@flow(
    name="run-time-table",
    flow_run_name=run_name,
    log_prints=False,
    persist_result=True,
    result_serializer="json",
)
def run_time_table(
    models: Annotated[list[str], Option("model")] = [FROM_SETTINGS],  # noqa: B006 - Prefect's copy
    devices: Annotated[list[str], Option("device")] = [FROM_SETTINGS],  # noqa: B006
    precisions: Annotated[list[Precision], Option("precision")] = ["auto"],  # noqa: B006
    runs_per_cell: Annotated[int, Field(ge=1)] = 1,
    again: bool = False,
    dataset: Annotated[str, Option("dataset")] = "embedded",
    weights: dict[str, str] = {},  # noqa: B006
    data: DataOptions = DataOptions(),  # noqa: B008 - frozen
    training: TrainingOptions = TrainingOptions(),  # noqa: B008
    generation: GenerationOptions = GenerationOptions(),  # noqa: B008
    run: RunOptions = RunOptions(),  # noqa: B008
) -> Grid:
    """Time every model on every device for two epochs, and lay the table out.

    One fine-tune run a cell, one after another. A cell that fails, or a device that this machine
    lacks, is reported, and the others go on.

    Args:
        runs_per_cell: Timings a cell is to have; those it has are not repeated. [runs, 1 or more]
        again: Time every cell, measured or not.
        weights: Local base weights by model, instead of the catalog's.
        data: How entries become tokens.
        training: Chapter 7's recipe; the table is of two epochs.
        generation: How answers are drawn.
        run: What the runs keep and which machine parts they use.
    """
    asked = FineTuneOptions(
        dataset=dataset, data=data, training=training, generation=generation, run=run
    )
    grid = plan_table(
        asked,
        fetch_dataset(dataset),
        models=models,
        devices=devices,
        precisions=precisions,
        weights=weights,
        runs_per_cell=runs_per_cell,
        again=again,
    )
    failures = {cell.name: reason for cell in grid.cells if (reason := _time(cell, asked))}
    return show_table(grid.with_failures(failures))


def _time(cell: GridCell, asked: FineTuneOptions) -> str | None:
    """Run what the cell lacks; the reason where one of its runs did not complete."""
    for _ in range(cell.missing):
        ended = time_cell(cell, asked, return_state=True)
        if not ended.is_completed():
            return str(ended.result(raise_on_failure=False))
    return None


if __name__ == "__main__":
    run_time_table()
