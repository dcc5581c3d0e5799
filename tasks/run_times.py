"""The run-time table: what is still to be timed, and how it looks."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from tasks.artifacts import show_run_times
from tasks.caching import stage
from tasks.child import reason_of, run_child
from twolevers.errors import TwoleversError
from twolevers.grid import Grid, GridCell, grid_table, plan_grid
from twolevers.options import FineTuneOptions
from twolevers.records import DatasetFile
from twolevers.tracking.tables import track_table


@task(task_run_name="plan the table", name="plan table")
def plan_table(asked: FineTuneOptions, dataset: DatasetFile, **levers: Any) -> Grid:
    """The cells, and what each of them lacks; asked anew by a retry, which times the rest."""
    grid = plan_grid(asked, dataset, **levers)
    for cell in grid.cells:
        runs = f"{cell.missing} run{'s' * (cell.missing != 1)} to time"
        done = runs if cell.missing else "measured already"
        get_run_logger().info("%s: %s", cell.name, cell.problem or done)
    return grid


@task(task_run_name="time {cell.name}", name="time cell")
def time_cell(cell: GridCell, asked: FineTuneOptions) -> None:
    """One fine-tune run of the cell, as the flow run of its own that a user would start."""
    ended = run_child("flows.fine_tune", "fine_tune", cell.parameters(asked))
    if not ended.is_completed():
        raise TwoleversError(reason_of(ended))


@task(task_run_name="table", **stage("table"))
def show_table(grid: Grid) -> Grid:
    """The table as it stands now, all of the workload's runs in it, here and in MLflow."""
    for line in grid.not_measured:
        get_run_logger().warning("not measured: %s", line)
    table = grid_table(grid)
    show_run_times(table, grid.not_measured)
    track_table(table, grid.not_measured, flow_run.id)
    return grid
