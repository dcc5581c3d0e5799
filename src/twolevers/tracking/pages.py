"""Where the web interfaces show a run."""

from __future__ import annotations

import os

from twolevers.errors import TwoleversError
from twolevers.settings import Home, load_settings
from twolevers.tracking import names


def run_page(run_id: str, server: str | None) -> str | None:
    """Address of a tracked run's page, None where no server is known.

    Args:
        server: address of a server that runs over the home's own store, if there is one; where
            the settings name a server, that is it.
    """
    from twolevers.tracking.store import open_store

    try:
        page = open_store(Home(), load_settings()).run_page(run_id)
    except TwoleversError:  # the tracking server is away, and a link to it would lead nowhere
        return None
    if page.startswith("http"):
        return page
    return f"{server.rstrip('/')}{page}" if server else None


def flow_run_page(flow_run_id: str | None) -> str | None:
    """Address of a flow run's page, None where no address is set that outlives the run."""
    address = os.environ.get("PREFECT_UI_URL")
    return f"{address.rstrip('/')}/runs/flow-run/{flow_run_id}" if address and flow_run_id else None


def flow_run_tags(flow_run_id: str | None) -> dict[str, str]:
    """By what an MLflow run is known as a flow run's: its id, and its page where there is one."""
    if not flow_run_id:
        return {}
    tags = {names.PREFECT_FLOW_RUN_ID: flow_run_id}
    if page := flow_run_page(flow_run_id):
        tags[names.PREFECT_FLOW_RUN_URL] = page
    return tags
