import json
import re
from urllib.parse import parse_qs

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store, open_store


def test_the_view_of_the_runs_is_stored_and_mended(
    home: Home, settings: Settings, store: Store
) -> None:
    key = parse_qs(store.runs_path.partition("?")[2])["viewStateShareKey"][0]

    def view() -> dict[str, list[str]]:
        experiment = store.client.get_experiment(store.experiment_id)
        return json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])

    columns = view()["selectedColumns"]
    # As MLflow's page writes them: the kind, a point, the name between backticks.
    assert all(re.fullmatch(r"(params|metrics|tags|attributes)\.`[^`]+`", c) for c in columns)
    assert {"params.`model`", "params.`device`", "metrics.`two_epoch_seconds`"} <= {*columns}
    store.client.set_experiment_tag(store.experiment_id, f"mlflow.sharedViewState.{key}", "{}")
    open_store(home, settings)
    assert view()["selectedColumns"] == columns


def test_whoever_may_not_change_the_experiment_may_still_log(
    home: Home, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def refuse(*_: object) -> None:
        raise MlflowException("Permission denied")

    store.client.set_experiment_tag(
        store.experiment_id, "mlflow.sharedViewState.twolevers", "of an older version"
    )
    monkeypatch.setattr(MlflowClient, "set_experiment_tag", refuse)
    with open_run(home=home, settings=settings, name="a run") as tracker:
        pass
    assert store.client.get_run(tracker.run_id).info.status == "FINISHED"
