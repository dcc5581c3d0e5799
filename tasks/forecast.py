"""What a run will need, said before it begins."""

from __future__ import annotations

from prefect import task

from tasks.progress import stage_progress
from twolevers.records import FineTuneRun, TokenisedData, WeightsFolder
from twolevers.tracking.forecast import forecast_run


@task(task_run_name="forecast", name="forecast")
def forecast(run: FineTuneRun, weights: WeightsFolder, data: TokenisedData) -> None:
    """Memory and time; what does not fit is refused here, before it takes the machine down."""
    with stage_progress() as progress:
        forecast_run(run, weights, data, progress.note)
