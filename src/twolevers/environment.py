"""What has to stand in the environment before Prefect and MLflow are imported.

Both read their settings when they are imported. Everything here is a default: what the user
has set stays.
"""

from __future__ import annotations

import os
import tempfile
import warnings

from twolevers.errors import InputError, Problem
from twolevers.settings import Home


def prepare_environment(home: Home | None = None) -> Home:
    """Point both tools at the home folder and switch their telemetry off."""
    home = home or Home()
    defaults = {
        "TWOLEVERS_HOME": str(home.root),
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_LOCAL_STORAGE_PATH": str(home.prefect / "results"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
            "prefect.server.concurrency.lease_storage.filesystem"
        ),
        # How long a killed run is taken for alive: automations.yaml.
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",  # MLflow warns where there is no git
    }
    # Prefect can't make a home two folders deep; `writable_home` can, or says clearly why not.
    warnings.filterwarnings("ignore", "Failed to create the Prefect home directory", UserWarning)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    return home


def writable_home() -> Home:
    """The home folder, made where it is missing.

    Raises:
        InputError: it cannot be written to.
    """
    home = prepare_environment()
    try:
        home.prefect.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home.root):
            pass
    except OSError as error:
        raise InputError(
            Problem(
                "TWOLEVERS_HOME",
                str(home.root),
                f"cannot be written to ({error.strerror})",
                "set TWOLEVERS_HOME to a folder that can",
            )
        ) from error
    return home
