"""The store of tracked runs: made once, upgraded when old, found again where it was moved to.

Without an address in the settings it is an SQLite database and a folder of artifacts in the
home. One function here makes the experiment, and with a file artifact location: one that a
server made would have an `mlflow-artifacts:` location, which only works by that server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import urllib.error
import urllib.request
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.settings import Home, Settings
from twolevers.tracking import runs_view
from twolevers.tracking.artifacts import local_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Set before mlflow is imported; whoever sets them otherwise wins. Retries and time limits are
# bounded because the tracker retries by itself: mlflow's own defaults add up to many minutes.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
}
SERVER_SCHEMES = ("http", "https")
DATABASE_SCHEMES = ("sqlite", "postgresql", "mysql", "mssql")
HEALTH_SECONDS = 10.0


@dataclass(frozen=True)
class Store:
    """An open store: the client, the experiment that runs go to, and whether it is the home's."""

    client: MlflowClient
    uri: str
    experiment_id: str
    local: bool

    def run_page(self, run_id: str) -> str:
        """Where the UI shows a run; without a server the part that follows its address."""
        parts = urlsplit(self.uri)
        # Links are shown and stored: what stands before an `@`, a password, is not for that.
        public = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        base = public if parts.scheme in SERVER_SCHEMES else ""
        return f"{base}/#/experiments/{self.experiment_id}/runs/{run_id}?{runs_view.FOR_TRAINING}"

    @property
    def runs_path(self) -> str:
        """Where the UI shows the runs side by side, without the server's address."""
        return runs_view.runs_path(self.experiment_id)


def quiet_mlflow() -> None:
    """Set mlflow's environment and silence what it says to nobody's use."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    # Failed statements are raised to us as well; their traceback would be printed twice.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        # Its mappers use what newer SQLAlchemy deprecates: nothing a user could act on.
        warnings.simplefilter("ignore")
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401


def open_store(home: Home, settings: Settings) -> Store:
    """The store, prepared, with its experiment.

    Raises:
        InputError: the address or the experiment cannot be used.
        TwoleversError: the server does not answer.
    """
    uri = prepare_store(home, settings)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(uri)
    except (MlflowException, ImportError, OSError) as error:
        raise TwoleversError(
            f"MLflow's store {uri.split('@')[-1]} cannot be opened ({error}). Correct "
            "TWOLEVERS_TRACKING_URI, or unset it: then the store in the home folder is used."
        ) from error
    local = not settings.tracking_uri
    location = artifact_location(home) if local else None
    try:
        experiment_id = find_experiment(client, settings.experiment, location)
    except MlflowException as error:
        raise TwoleversError(
            f"MLflow at {uri} does not give the experiment {settings.experiment!r}: {error}"
        ) from error
    return Store(client, uri, experiment_id, local)


def artifact_location(home: Home) -> str:
    """The home's artifacts as a file address."""
    return (home.mlflow.resolve() / "artifacts").as_uri()


def find_experiment(client: MlflowClient, name: str, location: str | None) -> str:
    """Id of the experiment; made where it is missing, restored where it was deleted.

    Args:
        location: its artifacts' address, or None to leave that to the server.

    Raises:
        InputError: a file location is needed and the experiment has a server's, or the
            experiment's files lie on another machine.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, location, tags=runs_view.TAGS))
        except MlflowException:  # another process was faster
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    if location and experiment.artifact_location.startswith("mlflow-artifacts:"):
        raise InputError(
            Problem(
                "experiment",
                name,
                "was made through a server, which alone can reach its artifacts",
                "choose another name (TWOLEVERS_EXPERIMENT=…) or use that server "
                "(TWOLEVERS_TRACKING_URI=http://…)",
            )
        )
    folder = local_path(experiment.artifact_location)
    if location is None and folder and not (folder.is_dir() or folder.parent.is_dir()):
        raise InputError(
            Problem(
                "experiment",
                name,
                f"keeps its artifacts in the folder {folder}, which this machine does not have",
                "start the MLflow server with --artifacts-destination FOLDER and without "
                "--default-artifact-root, and choose another name (TWOLEVERS_EXPERIMENT=…)",
            )
        )
    with contextlib.suppress(MlflowException):  # whoever may log runs may not change this
        runs_view.set_view(client, experiment)
    return str(experiment.experiment_id)


def prepare_store(home: Home, settings: Settings) -> str:
    """Make the store usable and return its tracking address.

    The home's database is made on first use (seconds; several processes may start at once),
    upgraded when an older MLflow made it, and pointed to its folder when the home was moved.

    Raises:
        InputError: an address of a kind that is not supported, or a file that is no database.
        TwoleversError: the server does not answer.
    """
    quiet_mlflow()
    if settings.tracking_uri:
        return _check_address(settings.tracking_uri)
    from twolevers.tracking.database import prepare_database

    try:
        prepare_database(home.mlflow / "mlflow.db", artifact_location(home))
        # There from the start: by it a client of a server tells that the files are on its disk.
        (home.mlflow / "artifacts").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            Problem("home", str(home.root), "cannot be written to", "set TWOLEVERS_HOME")
        ) from error
    return home.tracking_uri


def _check_address(uri: str) -> str:
    scheme = urlsplit(uri).scheme.split("+")[0]
    if scheme in DATABASE_SCHEMES:
        return uri
    if scheme not in SERVER_SCHEMES:
        raise InputError(
            Problem(
                "tracking_uri",
                uri,
                "is neither a server nor a database",
                "give http://… or https://…, or leave it empty for the store in the home folder",
            )
        )
    try:
        with urllib.request.urlopen(uri.rstrip("/") + "/health", timeout=HEALTH_SECONDS):
            pass
    except urllib.error.HTTPError as error:
        error.close()  # it answers; whether it lets us in is seen at the first request
    except OSError as error:
        raise TwoleversError(
            f"The MLflow server at {uri} does not answer ({error}). Start it, correct "
            "TWOLEVERS_TRACKING_URI, or leave that empty to use the store in the home folder."
        ) from error
    except ValueError as error:
        raise InputError(
            Problem("tracking_uri", uri, f"is no address ({error})", "give http://host:port")
        ) from error
    return uri
