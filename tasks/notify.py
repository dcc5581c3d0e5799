"""What notifications need of a run. Whom to tell is decided by automations.yaml.

Nothing here is worth a run: where Prefect or MLflow does not answer, the log says so.
"""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from tasks.artifacts import best_effort
from twolevers.records import FineTuneRun, OpenRun, RunSummary
from twolevers.tracking.pages import run_page
from twolevers.tracking.worse import worse_than_last

MLFLOW_LABEL = "twolevers.mlflow"
WORSE_EVENT = "twolevers.loss.worse"


def link_to_mlflow(run: OpenRun, mlflow: str | None) -> None:
    """Label the flow run with the address of its MLflow run, or with that one's id.

    Args:
        mlflow: address of a running MLflow server, if there is one.
    """

    def link() -> None:
        with get_client(sync_client=True) as client:
            label = run_page(run.run_id, mlflow) or run.run_id
            client.update_flow_run_labels(flow_run.id, {MLFLOW_LABEL: label})

    best_effort("Prefect has no link to MLflow", link)


def tell_if_worse(run: FineTuneRun, summary: RunSummary) -> None:
    """Warn, and let Prefect know, of a loss that is worse than the last run's."""

    def tell() -> None:
        if worse := worse_than_last(run, summary):
            get_run_logger().warning(str(worse))
            resource = {
                "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
                "prefect.resource.name": str(flow_run.name),
            }
            emit_event(WORSE_EVENT, resource, payload={"message": str(worse)})

    best_effort("The loss is not compared with the last run's", tell)
