"""Where what runs over this home can be reached."""

from __future__ import annotations

from flows.running import server_address
from twolevers.settings import Home


def mlflow_address() -> str | None:
    """Address of the MLflow server that `twolevers up` runs, None where none answers."""
    return server_address(Home(), "MLflow")
