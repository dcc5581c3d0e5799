"""Where workers take the code of a run from: the folder it was deployed from, or a repository."""

from __future__ import annotations

import os
from typing import Any

from twolevers.settings import FETCHED_CLONE

REPOSITORY, BRANCH = "TWOLEVERS_REPOSITORY", "TWOLEVERS_BRANCH"


def pull_steps(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of prefect.yaml (`spec`) that hold: `definitions.pull_from_repository`, which is
    taken out of it, where a repository is set (`TWOLEVERS_REPOSITORY`), else `pull`.
    """
    from_repository: list[dict[str, Any]] = spec.pop("definitions")["pull_from_repository"]
    if not os.environ.get(REPOSITORY):
        return list(spec["pull"])
    return [
        {name: _filled(options) if name.endswith(".git_clone") else options}
        for step in from_repository
        for name, options in step.items()
    ]


def _filled(options: dict[str, str]) -> dict[str, str]:
    """Repository and branch written out; what is not set or not there is left away."""
    filled = {"clone_directory_name": FETCHED_CLONE}
    for name, value in options.items():
        for variable in (REPOSITORY, BRANCH):
            value = value.replace(f"{{{{ ${variable} }}}}", os.environ.get(variable, ""))
        if value and not (name == "access_token" and _is_missing(value)):
            filled[name] = value
    return filled


def _is_missing(reference: str) -> bool:
    """Whether `{{ prefect.blocks.secret.NAME }}` names a block that the server does not have."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    kind, _, name = reference.strip("{} ").removeprefix("prefect.blocks.").partition(".")
    with get_client(sync_client=True) as client:
        try:
            client.read_block_document_by_name(name, kind, include_secrets=False)
        except ObjectNotFound:
            return True
    return False
