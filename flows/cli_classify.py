"""The command `classify`: train a classifier, or ask one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows.option_flags import takes
from flows.quick_imports import quick_imports
from twolevers.classification.options import ClassifyOptions
from twolevers.errors import InputError, Problem
from twolevers.options import option_fields

classification = typer.Typer()
FIELDS = [(name, field) for _, name, field in option_fields(ClassifyOptions)]


@classification.command()
@takes(FIELDS)
def classify(
    given: dict[str, Any],
    texts: Annotated[
        list[str] | None, typer.Argument(help="with --run: texts to classify", metavar="TEXT")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="ask this run's classifier, or show the run"),
    ] = None,
    instruction: Annotated[
        bool,
        typer.Option("--instruction", help="with --run: score a fine-tuned model's labels instead"),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="continue a killed or stopped run"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="as JSON on standard output")] = False,
) -> None:
    """Train a model to put texts into classes; with --run, ask it.

    Without a data set: the embedded messages, spam or not. With --run RUN and no text: what the run
    came to, chapter 6's published figures beside it; RUN is an MLflow run id, a Prefect flow run
    id, a unique prefix of either, a checkpoint folder, or latest.

    With --resume RUN: go on with a run that was stopped or killed, to the same classifier, bit for
    bit.

    With --instruction, RUN is a fine-tuning. Where its data has kinds of task with few different
    answers, those are labels: how often the base and the tuned model choose the right one, by
    likelihood and when free to write anything.
    """
    with quick_imports():
        from flows import classify_command

    if resume is not None and (run or texts or instruction):
        what = "goes on training, and --run, --instruction and TEXT ask what is trained"
        raise InputError(Problem("--resume", resume, what, "give the one or the other"))
    if instruction:
        from flows.classify_labels import show_label_scores

        show_label_scores(run or "latest", texts or [], given, json)
    elif run or texts:
        classify_command.ask_classifier(run or "latest", texts or [], given, json)
    else:
        classify_command.run_classification(given, json, resume)
