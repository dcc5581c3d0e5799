"""The commands that talk to a run's model: `serve`, `chat`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.quick_imports import quick_imports

serving = typer.Typer()

Run = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="RUN",
        help="MLflow run id, Prefect flow run id, a unique prefix of either, a checkpoint folder, "
        "or latest",
    ),
]
Base = Annotated[bool, typer.Option("--base", help="the model as it was before fine-tuning")]
Device = Annotated[str, typer.Option(help="the device lever")]
Precision = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16")]


@serving.command()
def serve(
    run: Run = "latest",
    base: Base = False,
    host: Annotated[
        str,
        typer.Option(help="who reaches it: this machine alone, or 0.0.0.0 for all, with a key"),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 8000,
    max_batch: Annotated[int, typer.Option(min=1, help="answers continued together")] = 16,
    queue: Annotated[
        int, typer.Option(min=0, help="requests that wait beyond those; more get status 429")
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.1, help="longest answer [seconds]")] = 120.0,
    grace: Annotated[
        float, typer.Option(min=0, help="for answers under way when it is ended [seconds]")
    ] = 10.0,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Serve a run's model as OpenAI's API does: completions and chat, whole or streamed.

    Everyone who asks is answered together, a token a step. TWOLEVERS_API_KEY sets the key that
    clients send; beyond loopback one is made where none is set.
    """
    with quick_imports():
        from flows.serving import Limits
        from flows.serving import serve as start

    limits = Limits(max_batch, queue, timeout)
    start(
        run, base=base, host=host, port=port, limits=limits, grace=grace, device=device,
        precision=precision,
    )  # fmt: skip


@serving.command()
def chat(
    run: Run = "latest",
    base: Base = False,
    web: Annotated[
        bool, typer.Option("--web", help="a page with base and tuned side by side (extra: chat)")
    ] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="with --web: its port")] = 7860,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="longest answer [tokens] (default: the run's)")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="0: greedy (default: the run's)")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Talk to a run's model in the terminal, in the prompt that it was trained with.

    Lines from a pipe are answered too: twolevers chat < questions.txt
    """
    with quick_imports():
        from flows import serving as talk

    changes = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    given = {name: value for name, value in changes.items() if value is not None}
    if web:
        talk.chat_page(run, port=port, device=device, precision=precision)
    else:
        talk.chat(run, base=base, device=device, precision=precision, changes=given)
