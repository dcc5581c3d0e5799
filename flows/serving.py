"""A run's model to talk to: over HTTP, in the terminal, on a page."""

from __future__ import annotations

import io
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec

from flows.ask import find_asked
from flows.ports import is_loopback, port_problem, reached_at, seen_at
from twolevers.data.prompt import find_style
from twolevers.device import find_device, find_precision
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.interrupt import ending_signals
from twolevers.models.weights import load_model
from twolevers.options import build_options
from twolevers.serving.engine import Engine
from twolevers.serving.preferences import FILE_NAME, keep_preference
from twolevers.serving.served import ServedModel

KEY_VARIABLE = "TWOLEVERS_API_KEY"


@dataclass(frozen=True)
class Limits:
    """What an engine takes on."""

    max_batch: int = 16
    max_waiting: int = 64
    timeout: float = 120.0


def open_model(
    run: str,
    *,
    base: bool,
    device: str,
    precision: str,
    limits: Limits,
    changes: dict[str, object] | None = None,
) -> ServedModel:
    """A run's model, tuned or base, ready to answer.

    Args:
        changes: to the way the run's answers were drawn.

    Raises:
        InputError: no such run, device or precision; a run without a checkpoint.
    """
    told = build_options({"precision": precision, **(changes or {})}, {})  # checks them all
    on = find_device(device)
    precision = find_precision(told.precision, on)
    asked = find_asked(run, base=base)
    model = load_model(asked.path, asked.config, device=on.name)
    engine = Engine(
        model,
        on,
        precision,
        max_batch=limits.max_batch,
        max_waiting=limits.max_waiting,
        timeout=limits.timeout,
    )
    style = find_style(asked.trained.data.prompt_style)
    options = asked.trained.generation.model_copy(update=changes or {})
    return ServedModel(asked.name, engine, style, options)


def serve(
    run: str,
    *,
    base: bool,
    host: str,
    port: int,
    limits: Limits,
    grace: float,
    device: str,
    precision: str,
) -> None:
    """The endpoint, until Ctrl-C, SIGTERM or SIGHUP.

    Raises:
        InputError: as `open_model`; a port that is taken.
    """
    problems = []
    key = os.environ.get(KEY_VARIABLE, "").strip() or None
    if key and not (key.isascii() and key.isprintable()):
        what = "holds characters that no HTTP header carries"
        problems.append(Problem(KEY_VARIABLE, None, what, "use ASCII letters, digits and signs"))
    if problem := port_problem(host, port, "--port"):
        problems.append(problem)
    if problems:
        raise InputError(problems)
    made = key is None and not is_loopback(host)
    if made:
        key = secrets.token_urlsafe(24)
    served = open_model(run, base=base, device=device, precision=precision, limits=limits)
    from twolevers.serving.api import make_app
    from twolevers.serving.server import Server

    def tell(bound: int) -> None:
        address = f"http://{seen_at(host)}:{bound}/v1"
        lines = [f"serving   {served.name}", f"address   {address}"]
        if made:
            lines.append(f"key       {key}   (until it ends; {KEY_VARIABLE} sets one)")
        elif key:
            lines.append(f"key       the one that {KEY_VARIABLE} holds")
        lines += [
            f"try it    {_curl(host, bound, with_key=key is not None)}",
            "",
            "Ctrl-C ends it.",
        ]
        print("\n".join(lines), flush=True)

    app = make_app(served, key)
    server = Server(app, served.engine, host=host, port=port, grace=grace, on_start=tell)
    for number in ending_signals():  # uvicorn itself knows no SIGHUP
        signal.signal(number, server.handle_exit)
    server.run()
    print("ended", flush=True)


def _curl(host: str, port: int, *, with_key: bool) -> str:
    key = " -H 'Authorization: Bearer KEY'" if with_key else ""
    body = '{"messages": [{"role": "user", "content": "What is the capital of Bulgaria?"}]}'
    address = f"http://{reached_at(host)}:{port}/v1/chat/completions"
    return f"curl {address}{key} -H 'Content-Type: application/json' -d '{body}'"


def chat(run: str, *, base: bool, device: str, precision: str, changes: dict[str, object]) -> None:
    """A chat in the terminal; lines from a pipe are answered too.

    Raises:
        InputError: as `open_model`.
    """
    from twolevers.serving.terminal import Chat

    def open_one(is_base: bool) -> ServedModel:
        return open_model(
            run,
            base=is_base,
            device=device,
            precision=precision,
            limits=Limits(max_batch=1, timeout=3600.0),
            changes=changes,
        )

    typed = sys.stdin is not None and sys.stdin.isatty()
    talk = Chat(open_one, base=base, out=sys.stdout, typed=typed)
    # Ctrl-C cuts an answer, these do not.
    before = {number: signal.signal(number, _leave) for number in ending_signals()}
    try:
        if typed:
            print(f"{talk.model.name}: what shall it do? /help says what there is", flush=True)
        else:
            _ = talk.model  # no run is an error, whatever comes in
        talk.run(_lines(typed))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        talk.close()


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _lines(typed: bool) -> Iterator[str]:
    """What is typed, or comes through a pipe (UTF-8, as every file here). Ctrl-C at the prompt
    ends, as Ctrl-D does."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding=None if typed else "utf-8-sig", errors="replace")
    if not typed:
        yield from sys.stdin or ()  # `<&-` leaves none
        return
    with suppress(ImportError):
        import readline  # noqa: F401  # gives `input` a history
    while True:
        try:
            yield input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return


def chat_page(run: str, *, port: int, device: str, precision: str) -> None:
    """Base and tuned side by side on a page, until Ctrl-C; choices go to the home.

    Raises:
        InputError: as `open_model`; a port that is taken.
        TwoleversError: the extra is not installed.
    """
    if find_spec("gradio") is None:
        raise TwoleversError(
            "the page needs Gradio, which is not installed; install it: "
            f"{sys.executable} -m pip install 'gradio>=6'"
        )
    if problem := port_problem("127.0.0.1", port, "--port"):
        raise InputError(problem)
    from twolevers.serving.page import make_page, show_page

    base, tuned = (
        open_model(run, base=is_base, device=device, precision=precision, limits=Limits())
        for is_base in (True, False)
    )
    file = writable_home().root / FILE_NAME
    page = make_page(base, tuned, lambda preference: keep_preference(file, preference))
    address = show_page(page, port)
    print(f"page      {address}\nchoices   {file}\n\nCtrl-C ends it.", flush=True)
    try:
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    finally:
        page.close(verbose=False)
        for model in (base, tuned):
            model.engine.close()
    print("ended", flush=True)
