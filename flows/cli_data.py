"""The command about data: `data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.option_flags import path_option

data = typer.Typer()


@data.command("data")
def inspect(
    dataset: Annotated[
        str, typer.Argument(help="catalog name, local path or https address", metavar="DATASET")
    ] = "embedded",
    map: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help='columns that have other names: "instruction=question output=answer"; a column '
            "may be a template: \"text='{title}: {body}'\"",
        ),
    ] = None,
    prompt_style: Annotated[str | None, typer.Option(help="as fine-tune takes it")] = None,
    loss_on: Annotated[str | None, typer.Option(help="everything or response")] = None,
    max_length: Annotated[str | None, typer.Option(help="entries are cut to this [tokens]")] = None,
    split: Annotated[str | None, typer.Option(help="file order or shuffled")] = None,
    seed: Annotated[str | None, typer.Option(help="of a shuffled split")] = None,
    html: Annotated[
        Path | None, path_option("write a page with rendered rows into this file")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="as JSON on standard output")] = False,
) -> None:
    """What a data set is like: counts, lengths, duplicates, leaks, scripts, rendered rows.

    Nothing is changed. Exit status 1 where a run with these options would not start.
    """
    from flows.data_view import show_data

    given: dict[str, Any] = {
        "dataset": dataset,
        "map": map,
        "prompt_style": prompt_style,
        "loss_on": loss_on,
        "max_length": max_length,
        "split": split,
        "seed": seed,
    }
    if not show_data(given, html, json):
        raise typer.Exit(1)
