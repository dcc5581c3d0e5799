"""The commands that look at a model's answers: `judge`, `evaluate`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.option_flags import takes
from flows.quick_imports import quick_imports
from twolevers.evaluation.judge_options import JudgeOptions, judge_flags, judge_options_from

evaluation = typer.Typer()


@evaluation.command()
@takes(judge_flags())
def judge(
    given: dict[str, Any],
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="RUN", help="the run (default: latest); twice: the two runs"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="as JSON on standard output")] = False,
) -> None:
    """Have a model score a run's answers, 0 to 100: base against tuned, or run against run.

    With two runs the judge is also asked which answer is better, in both orders. What was judged
    is kept: asked again, or after a break, only what is missing is asked. A key that the judge
    asks for stands in the environment: TWOLEVERS_JUDGE_KEY, for OpenAI also OPENAI_API_KEY.
    """
    options: JudgeOptions = judge_options_from(given)
    with quick_imports():
        from flows.judge import judge as run_judge

    run_judge(run or ["latest"], options, json)
