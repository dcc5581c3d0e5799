"""The commands that look at a model's answers: `judge`, `evaluate`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.option_flags import takes
from flows.quick_imports import quick_imports
from twolevers.evaluation.judge_options import judge_flags, judge_options_from
from twolevers.options import option_fields

evaluation = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="as JSON on standard output")]
JUDGE = judge_flags()
ASKING = [
    (name, field)
    for group, name, field in option_fields()
    if name != "model" and group in (None, "data", "generation")
]
"""Options of a fine-tuning that matter where nothing is trained."""


@evaluation.command()
@takes(JUDGE)
def judge(
    given: dict[str, Any],
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="RUN", help="the run (default: latest); twice: the two runs"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Have a model score a run's answers, 0 to 100: base against tuned, or run against run.

    With two runs the judge is also asked which answer is better, in both orders. What was judged
    is kept: asked again, or after a break, only what is missing is asked. A key that the judge
    asks for stands in the environment: TWOLEVERS_JUDGE_KEY, for OpenAI also OPENAI_API_KEY.
    """
    options = judge_options_from(given)
    with quick_imports():
        from flows.judge import judge as run_judge

    run_judge(run or ["latest"], options, json)


@evaluation.command()
@takes([*ASKING, *JUDGE])
def evaluate(
    given: dict[str, Any],
    model: Annotated[
        str,
        typer.Argument(
            help="a run (MLflow or Prefect id, unique prefix, latest), a checkpoint folder, or the "
            "name of a model as it is before fine-tuning",
            metavar="MODEL",
        ),
    ] = "latest",
    eval_split: Annotated[
        str,
        typer.Option(
            help="what of the data is scored: test, val, train or all (default: all of a --dataset "
            "that is a file and not the run's own, the test split of any other data)",
            metavar="TEXT",
            show_default=False,
        ),
    ] = "auto",
    json: AsJson = False,
) -> None:
    """Score any model again, with other data or another judge, without training it.

    A run's model is asked as the run asked it, on its own test split, but for what is given here;
    a file given as --dataset is scored as a whole. A judge is asked where one of its options is
    given.
    """
    with quick_imports():
        from flows.evaluate_command import run_evaluation

    names = {name for name, _ in JUDGE}
    judge = {name: value for name, value in given.items() if name in names}
    options = {name: value for name, value in given.items() if name not in names}
    asked = judge_options_from(judge) if judge else None
    run_evaluation(model, options, eval_split, asked, json)
