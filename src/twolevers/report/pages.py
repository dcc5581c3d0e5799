"""Self-contained HTML pages: one file each, no address in it, light and dark, phone and print."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from twolevers.files import atomic_file
from twolevers.orderings import orderings
from twolevers.published import PublishedTable
from twolevers.report.table import (
    HOW_TO_READ,
    about,
    cell_notes,
    mark_of,
    ordering_text,
    timed_text,
)
from twolevers.report.texts import seconds_text, shown
from twolevers.run_times import RunTimes


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("twolevers.report"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"seconds_text": seconds_text, "shown": shown}
    environment.globals |= {"mark_of": mark_of, "cell_notes": cell_notes}
    return environment


def render(template: str, **values: Any) -> str:
    """One of the templates beside this file, everything escaped."""
    return _environment().get_template(template).render(**values)


def write_page(path: Path, html: str) -> Path:
    """A page as a file, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return path


def table_html(
    table: RunTimes,
    not_measured: Iterable[str] = (),
    *,
    others: Iterable[str] = (),
    published: PublishedTable | None = None,
    picture: bytes | None = None,
) -> str:
    """The run-time table as a page.

    Args:
        picture: a PNG of it, `pictures.heat_map`.
    """
    return render(
        "table.html",
        table=table,
        about=about(table),
        timed=timed_text(table),
        how_to_read=HOW_TO_READ,
        orderings=[ordering_text(one) for one in orderings(table)],
        not_measured=list(not_measured),
        others=list(others),
        published=published,
        picture=b64encode(picture).decode() if picture else None,
    )
