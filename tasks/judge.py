"""A judge's scores of one model's answers."""

from __future__ import annotations

from prefect import task

from tasks.caching import stage
from tasks.progress import stage_progress
from twolevers.evaluation.judge import JudgeResult, judge_answers
from twolevers.evaluation.judge_options import JudgeOptions
from twolevers.generation.answers import read_answers
from twolevers.records import FineTuneRun, Responses
from twolevers.settings import Home
from twolevers.tracking.judged import track_judged


@task(task_run_name="judge the {responses.role} model", **stage("judge"))
def judge(run: FineTuneRun, responses: Responses, options: JudgeOptions) -> JudgeResult:
    """Scores from 0 to 100, tracked in the run."""
    with stage_progress() as progress:
        judged = judge_answers(
            {responses.role: read_answers(responses)},
            options,
            folder=Home().judgements,
            progress=progress,
        )
    track_judged(run.run_id, judged)
    return judged.result
