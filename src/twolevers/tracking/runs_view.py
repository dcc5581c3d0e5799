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
VIEW = f"mlflow.sharedViewState.{KEY}"
COLUMNS = (
    "metrics.`two_epoch_seconds`",
    "metrics.`tokens_per_second`",
    "metrics.`peak_memory_bytes`",
    "metrics.`best_val_loss`",
    "metrics.`base/exact_match`",
    "metrics.`tuned/exact_match`",
    "params.`model`",
    "params.`device`",
    "params.`precision`",
    "params.`epochs`",
    "params.`dataset`",
    f"tags.`{names.HARDWARE}`",
    f"tags.`{names.FINGERPRINT}`",
)
"""Beside name, start and duration; the page sorts them by kind and name."""
FOR_TRAINING = "workflowType=machine_learning"
"""Without it a new browser shows the menu for language model applications."""
TAGS = {VIEW: json.dumps({"selectedColumns": COLUMNS})}


def runs_path(experiment_id: str) -> str:
    """The part of the address of the runs that follows the server's."""
    return f"/#/experiments/{experiment_id}/runs?viewStateShareKey={KEY}&{FOR_TRAINING}"


def set_view(client: MlflowClient, experiment: Experiment) -> None:
    """Give an experiment this version's view.

    Raises:
        MlflowException: the store refuses.
    """
    if experiment.tags.get(VIEW) != TAGS[VIEW]:
        client.set_experiment_tag(experiment.experiment_id, VIEW, TAGS[VIEW])
