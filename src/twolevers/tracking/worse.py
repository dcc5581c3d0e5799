"""Whether a run ended worse than the one before it."""

from __future__ import annotations

from twolevers.records import FineTuneRun, Record, RunSummary
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.queries import finished_runs


class WorseLoss(Record):
    """A validation loss (nats per supervised token, the whole split) beside the last run's."""

    now: float
    before: float
    previous_run_id: str

    def __str__(self) -> str:
        return (
            f"The validation loss is {self.now:.4f}, {self.now / self.before - 1:.1%} above the "
            f"{self.before:.4f} of the last run of this model on this workload "
            f"({self.previous_run_id})."
        )


def worse_than_last(run: FineTuneRun, summary: RunSummary) -> WorseLoss | None:
    """The tuned model's validation loss, where it is more than `WORSE_BY` above that of the last
    finished run of the same model with the same workload fingerprint."""
    settings = load_settings()
    now = summary.tuned.val_loss if summary.tuned else None
    if now is None or summary.fingerprint is None:
        return None
    loss = names.score_metric("tuned", "val_loss")
    for last in finished_runs(
        Home(), settings, model=run.options.model, fingerprint=summary.fingerprint
    ):
        if last.run_id and last.run_id != run.run_id and loss in last.metrics:
            before = last.metrics[loss]
            # A loss that is no number is worse too.
            fine = now <= before * (1 + settings.worse_by)
            return None if fine else WorseLoss(now=now, before=before, previous_run_id=last.run_id)
    return None
