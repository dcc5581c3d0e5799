"""All of prefect.yaml and automations.yaml onto the server that is set: `python -m flows.deploy`.

Deployments as `prefect deploy --all`, with three differences: the pools are made where they are
missing, the worker's folder is written out, and a schedule that was switched on or changed in the
UI stays as it is until its lines in prefect.yaml change.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from flows.automations import apply_automations
from flows.pull import pull_steps
from flows.quick_imports import exit_quickly, quick_imports
from twolevers.environment import writable_home
from twolevers.files import read_json, write_json
from twolevers.settings import Home, load_settings

CODE = Path(__file__).resolve().parents[1]
PREFECT_FILE = CODE / "prefect.yaml"
if not PREFECT_FILE.is_file():  # installed from a wheel, where it lies among the flows
    PREFECT_FILE = CODE / "flows" / "prefect.yaml"
WHO_IS_TOLD = "notify: "


def deployments() -> list[dict[str, Any]]:
    """The deployments that prefect.yaml names."""
    listed: list[dict[str, Any]] = _read()["deployments"]
    return listed


def pools() -> list[str]:
    """The work pools that they use."""
    return sorted({deployment["work_pool"]["name"] for deployment in deployments()})


def _read() -> dict[str, Any]:
    text = PREFECT_FILE.read_text(encoding="utf-8")
    spec: dict[str, Any] = yaml.safe_load(text.replace("{{ $TWOLEVERS_CODE }}", str(CODE)))
    return spec


def make_pools() -> None:
    """The pools of process workers, left as they are where they exist."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    with get_client(sync_client=True) as client:
        for name in pools():
            pool = WorkPoolCreate(name=name, type="process", base_job_template=template)
            try:
                client.create_work_pool(pool)
            except ObjectAlreadyExists:
                continue


def deploy(home: Home) -> None:
    """Deploy all of prefect.yaml with Prefect's own command."""
    from prefect.cli import app

    spec = _read()
    spec["pull"] = pull_steps(spec)
    kept = home.prefect / "deployed-schedules.json"
    written = {one["name"]: one.get("schedules", []) for one in spec["deployments"]}
    _leave_known_schedules(spec["deployments"], read_json(kept) if kept.is_file() else {})
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(spec, file, allow_unicode=True)
        file.flush()
        sys.argv = ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", file.name]
        try:
            app()
        except SystemExit as ended:
            if ended.code:
                raise
    write_json(kept, written)


def _leave_known_schedules(listed: list[dict[str, Any]], before: dict[str, Any]) -> None:
    """Take out of the deployments the schedules that were deployed as they stand now."""
    there = _names_on_the_server() if before else set()
    for deployment in listed:
        known = before.get(deployment["name"], []) if deployment["name"] in there else []
        fresh = [one for one in deployment.pop("schedules", []) if one not in known]
        if fresh:
            deployment["schedules"] = fresh


def _names_on_the_server() -> set[str]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {deployment.name for deployment in client.read_deployments()}


def tell_whom(home: Home) -> None:
    """Put the automations there, and say who is told; `twolevers up` shows that line."""
    notify = load_settings().notify
    if problem := apply_automations(home, notify):
        print(
            f"{WHO_IS_TOLD}{notify} {problem}: nobody is told. Correct NOTIFY, or make the block "
            "in Prefect (Blocks); then `twolevers up` once more."
        )
    elif notify:
        print(f"{WHO_IS_TOLD}{notify} is told of failures and worse losses")


def main() -> None:
    """Make the pools, deploy, then put the automations there."""
    home = writable_home()
    with quick_imports():
        make_pools()
    deploy(home)
    tell_whom(home)


if __name__ == "__main__":
    exit_quickly()
    main()
