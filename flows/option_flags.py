"""The options class as flags of a command: one flag a field, help, unit and default from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from twolevers.options import FROM_SETTINGS, flag, option_fields


def path_option(help: str) -> Any:
    """An option that names a file or folder; `~` is the home, which a shell leaves as it is in
    `--output=~/x`."""
    return typer.Option(help=help, parser=_path, metavar="PATH")


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # ~nobody
        raise typer.BadParameter(f"{text!r}: {error}") from None


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` a flag for every option of a fine-tuning."""
    return takes([(name, field) for _, name, field in option_fields()])(command)


def takes(
    fields: Sequence[tuple[str, FieldInfo]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for every field; it receives those given as `given: dict`.

    Values arrive as text: the options class parses them, so that all problems of a command
    line are found at once and worded in one place.
    """
    return lambda command: _with_flags(command, fields)


def _with_flags(
    command: Callable[..., None], fields: Sequence[tuple[str, FieldInfo]]
) -> Callable[..., None]:

    def run(**values: Any) -> None:
        own = {name: values.pop(name) for name in own_parameters if name in values}
        command(given={k: v for k, v in values.items() if v is not None}, **own)

    own_parameters = {
        name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "given"
    }
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=_annotation(name, field),
        )
        for name, field in fields
    ]
    parameters = [*options, *own_parameters.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _annotation(name: str, field: FieldInfo) -> Any:
    switch = field.annotation is bool
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit = f" [{extra['unit']}]" if "unit" in extra else ""
    flags = f"{flag(name)}/--no-{flag(name)[2:]}" if switch else flag(name)
    return Annotated[
        bool | None if switch else str | None,
        typer.Option(
            flags,
            help=f"{field.description}{unit}{_default(field)}",
            metavar="" if switch else _metavar(field),
            show_default=False,
        ),
    ]


def _default(field: FieldInfo) -> str:
    """The default as help shows it; a field without one says in its description what happens."""
    if field.default is None:
        return ""
    if isinstance(field.default, bool):
        text = "on" if field.default else "off"
    else:
        text = "settings.toml" if field.default == FROM_SETTINGS else str(field.default)
    return f" (default: {text})"


def _metavar(field: FieldInfo) -> str:
    text = str(field.annotation)
    for kind, metavar in (("int", "INTEGER"), ("float", "NUMBER")):
        if text.startswith((f"<class '{kind}'", f"{kind} |")):
            return metavar
    return "TEXT"
