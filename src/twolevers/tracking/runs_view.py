"""How MLflow's page shows the runs: a view with the columns that tell them apart.

A browser that has not seen the experiment shows source, models and data set beside each run's
name, and no tag or setting of the store changes that. What MLflow does offer is a shared view, an
experiment tag that an address names; the page then opens with its columns. It is stored here
as the page's own Share button stores it, and every address that twolevers gives of the
runs names it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from twolevers.tracking import names

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

KEY = "twolevers"
COLUMNS = (
    "params.`model`",
    f"tags.`{names.HARDWARE}`",
    "params.`device`",
    "params.`precision`",
    "params.`epochs`",
    "metrics.`two_epoch_seconds`",
    "metrics.`tokens_per_second`",
    "metrics.`peak_memory_bytes`",
    "metrics.`best_val_loss`",
    "metrics.`base/exact_match`",
    "metrics.`tuned/exact_match`",
    "attributes.`Dataset`",
    "attributes.`Models`",
    f"tags.`{names.FINGERPRINT}`",
)
TAGS = {
    f"mlflow.sharedViewState.{KEY}": json.dumps({"selectedColumns": COLUMNS}),
    # Pages for training runs; else MLflow asks what the experiment is for.
    "mlflow.experimentKind": "custom_model_development",
}


def runs_path(experiment_id: str) -> str:
    """The part of the address of the runs that follows the server's."""
    return f"/#/experiments/{experiment_id}/runs?viewStateShareKey={KEY}"


def set_view(client: MlflowClient, experiment: Experiment) -> None:
    """Give an experiment the view; one written by an older version is replaced.

    Raises:
        MlflowException: the store refuses.
    """
    for key, text in TAGS.items():
        if experiment.tags.get(key) != text:
            client.set_experiment_tag(experiment.experiment_id, key, text)
