"""The command `twolevers`: the same work as the flows, for a terminal."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import twolevers
from flows.cli_classify import classification
from flows.cli_data import data
from flows.cli_evaluation import evaluation
from flows.cli_export import exporting
from flows.cli_harness import harness
from flows.cli_servers import servers
from flows.cli_serving import serving
from flows.option_flags import path_option, takes_options
from flows.quick_imports import exit_quickly, quick_imports
from twolevers.errors import NO_ROOM, InputError, Problem, TwoleversError, no_room
from twolevers.interrupt import ending_signals

app = typer.Typer(
    name="twolevers",
    help="Fine-tune GPT-2 on instructions; see what the choice of model and of device costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,  # panels cut long option names
)

RUN_HELP = "MLflow run id, Prefect flow run id, a unique prefix of either, or latest"
Run = Annotated[str, typer.Argument(help=f"the run: {RUN_HELP}", metavar="RUN")]
AsJson = Annotated[bool, typer.Option("--json", help="as JSON on standard output")]


@app.command("fine-tune")
@takes_options
def fine_tune(
    given: dict[str, Any],
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help=f"continue a killed or stopped run: {RUN_HELP}"
        ),
    ] = None,
) -> None:
    """Fine-tune a model on instructions, tracked and scored.

    Every option can also stand in the environment: TWOLEVERS_EPOCHS=3. The command line wins.
    """
    with quick_imports():
        from flows.launch import run_fine_tuning

    run_fine_tuning(given, resume)


@app.command()
@takes_options
def estimate(
    given: dict[str, Any],
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="longest time to measure steps [seconds]")
    ] = 20.0,
    json: AsJson = False,
) -> None:
    """What a run would need: memory and time, from earlier runs or a few steps measured here.

    Takes the options of fine-tune. A device that is not here can be asked about too.
    """
    with quick_imports():
        from flows.estimate import print_estimate

    print_estimate(given, seconds, json)


@app.command()
def models(json: AsJson = False) -> None:
    """The model lever: the models there are."""
    from flows import listings

    listings.models(json)


@app.command()
def devices(json: AsJson = False) -> None:
    """The device lever: the devices of this machine, with the precision that auto takes."""
    from flows import listings

    listings.devices(json)


@app.command()
def datasets(json: AsJson = False) -> None:
    """The data sets that have a name; a path or an address works as well."""
    from flows import listings

    listings.datasets(json)


@app.command()
def runs(
    json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="newest runs shown")] = 20,
    kind: Annotated[str | None, typer.Option(help="fine-tune, classify or evaluation")] = None,
) -> None:
    """The runs there are, newest first: fine-tunings, classifications, evaluations."""
    from flows import listings

    listings.runs(json, limit, kind)


@app.command()
def show(
    run: Run = "latest",
    json: AsJson = False,
    published: Annotated[
        bool, typer.Option("--published", help="hold its losses against those of chapter 7")
    ] = False,
) -> None:
    """A run's summary."""
    from flows.show import show as print_run

    print_run(run, json, published)


@app.command()
def report(
    run: Run = "latest",
    output: Annotated[
        Path | None, path_option("file to write (default: report.html in the run's folder)")
    ] = None,
) -> None:
    """Write a run's page again: figures, curves, scores, answers, data, configuration."""
    from flows.report import report as write

    write(run, output)


@app.command()
def rerun(run: Run = "latest") -> None:
    """Repeat a run exactly and compare the losses; `latest` is the newest that finished."""
    with quick_imports():
        from flows.launch import run_again

    run_again(run)


@app.command()
def compare(
    runs: Annotated[list[str], typer.Argument(help=f"two runs or more: {RUN_HELP}", metavar="RUN")],
    json: AsJson = False,
    output: Annotated[Path | None, path_option("write it as a page into this file")] = None,
) -> None:
    """What the difference in time between runs can be put down to: the model, the device?"""
    from flows.compare import compare as show

    show(runs, json, output)


@app.command()
def table(
    measure: Annotated[
        bool, typer.Option("--measure", help="first time what the table lacks, a run a cell")
    ] = False,
    model: Annotated[
        list[str] | None, typer.Option(help="with --measure: a row; may be repeated")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option(help="with --measure: a column; may be repeated")
    ] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="with --measure: of each device; may be repeated")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL=PATH", help="with --measure: local base weights of a model"),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="with --measure: the data set (default: embedded)")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="with --measure: timings a cell")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="with --measure: time every cell, measured or not")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, html or png")
    ] = "terminal",
    output: Annotated[Path | None, path_option("file to write")] = None,
    workload: Annotated[
        str | None, typer.Option(help="fingerprint, or its beginning (default: the newest's)")
    ] = None,
    along: Annotated[
        str | None,
        typer.Option(help="row: what each device costs; column: what each model does; as bars"),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="lay chapter 7's own table beside it")
    ] = False,
) -> None:
    """The run-time table: models × devices, from the runs that were timed over two epochs.

    Options of the runs themselves stand in the environment: TWOLEVERS_BATCH_SIZE=4.
    """
    from flows.table import levers_of, measured_grid, show_table

    levers = levers_of(model, device, precision, weights, runs, again)
    grid = measured_grid(measure, levers, dataset)
    show_table(form, output, workload, published, grid, along)


@app.command()
def generate(
    instruction: Annotated[str, typer.Argument(help="what the model is asked to do")],
    run: Annotated[str, typer.Option("--run", metavar="RUN", help=RUN_HELP)] = "latest",
    input: Annotated[str, typer.Option("--input", help="the text it is asked about")] = "",
    base: Annotated[
        bool, typer.Option("--base", help="ask the model as it was before fine-tuning")
    ] = False,
    device: Annotated[str, typer.Option(help="the device lever")] = "auto",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="longest answer [tokens]")] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="0: greedy")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="draw from the k likeliest")] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="draw from this much probability")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="for temperature above 0")] = 123,
) -> None:
    """Ask a fine-tuned model."""
    from flows.ask import ask
    from twolevers.options import GenerationOptions

    if top_p == 0:
        raise InputError(Problem("--top-p", top_p, "leaves no token", "give more than 0"))
    options = GenerationOptions(
        max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p
    )
    print(ask(instruction, input, run=run, base=base, device=device, options=options, seed=seed))


@app.command()
def clean(
    older_than: Annotated[
        float, typer.Option(min=0, help="runs and caches older than this [days]")
    ] = 7.0,
    keep: Annotated[int, typer.Option(min=0, help="newest of each kind kept in any case")] = 10,
    yes: Annotated[bool, typer.Option("--yes", help="remove; without it only show")] = False,
) -> None:
    """Show what could go (old runs, caches, checkpoints), then remove it with --yes."""
    from flows import listings

    listings.clean(older_than, keep, yes)


app.add_typer(evaluation)
app.add_typer(harness)
app.add_typer(data)
app.add_typer(exporting)
app.add_typer(servers)
app.add_typer(serving)
app.add_typer(classification)


@app.callback(invoke_without_command=True)
def version(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if version:
        print(f"twolevers {twolevers.__version__}")
        raise typer.Exit


@contextmanager
def clear_errors() -> Iterator[None]:
    """What was raised on purpose ends the command with its message and status, no traceback."""
    try:
        yield
    except TwoleversError as error:
        title = "cannot start:\n  " if isinstance(error, InputError) else ""
        message = str(error).replace("\n", "\n  ") if title else str(error)
        print(f"twolevers: {title}{message}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("twolevers: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        print(f"twolevers: {no_room(error)}", file=sys.stderr)
        sys.exit(1)


def _terminate(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Entry point. SIGTERM, or its terminal being closed, ends a command as Ctrl-C does: runs are
    closed as KILLED, nothing half-written stays."""
    for number in ending_signals():
        signal.signal(number, _terminate)
    exit_quickly()
    for stream in (sys.stdout, sys.stderr):  # a console that has no → shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    with clear_errors():
        app()


if __name__ == "__main__":
    main()
