"""Where what runs over this home can be reached."""

from __future__ import annotations

import os

from flows.running import Running, running_server
from twolevers.settings import Home, load_settings


def mlflow_address() -> str | None:
    """Address of the MLflow server that `twolevers up` runs, None where none answers."""
    running = running_server(Home(), "MLflow")
    # One that is elsewhere doesn't run over this home's store.
    return running.page if running and running.pid else None


def web_addresses() -> dict[str, str]:
    """Of the interfaces, `mlflow` and `prefect`, that can be looked at now without `ui`."""
    set_to = {
        "mlflow": load_settings().tracking_uri or "",
        "prefect": os.environ.get("PREFECT_API_URL", "").rstrip("/").removesuffix("/api"),
    }
    found = {
        which: Running(None, "", address).page
        for which, address in set_to.items()
        if address.startswith("http")
    }
    if "mlflow" not in found and (address := mlflow_address()):
        found["mlflow"] = address
    if "prefect" not in found and (running := running_server(Home(), "Prefect")):
        found["prefect"] = running.page
    return found
