"""Names under which a run's figures are stored: written by the tracker, read by the queries."""

from __future__ import annotations

ROLES = ("base", "tuned")
SCORES = ("val_loss", "exact_match", "token_f1", "rouge_l", "chrf")
FIGURES = ("two_epoch_seconds", "train_seconds", "tokens_per_second", "peak_memory_bytes")
SUMMARY_KEYS = (
    "model",
    "device",
    "precision",
    *FIGURES,
    *ROLES,
    "mlflow_run_id",
    "prefect_flow_run_id",
    "fingerprint",
    "checkpoint",
    "status",
)
FINE_TUNE_KEYS = ("two_epoch_seconds", *ROLES)
"""Those that a classification has none of."""

KIND = "twolevers.kind"
FINE_TUNE = "fine-tune"
CLASSIFY = "classify"
RUN_TIME_TABLE = "run-time-table"
EVALUATION = "evaluation"
ANSWERS = "answers"
ROLE = "twolevers.role"
"""Which of a fine-tuning's models: of `ROLES`."""
LISTED = (FINE_TUNE, CLASSIFY, EVALUATION)
"""Kinds that users start a run of; a run-time table is drawn from such."""
RESUMABLE = (FINE_TUNE, CLASSIFY)
"""Kinds that go on after a stop or a kill, by the command of their name."""
STARTED_BY = {
    FINE_TUNE: "twolevers fine-tune, or make run",
    CLASSIFY: "twolevers classify",
    EVALUATION: "twolevers evaluate",
}
ERROR = "twolevers.error"
FINGERPRINT = "twolevers.fingerprint"
WORKLOAD = "twolevers.workload"
"""The parts of the fingerprint by name, as JSON."""
CHECKPOINT = "twolevers.checkpoint"
HOST = "twolevers.host"
HARDWARE = "twolevers.hardware"
THREADS = "twolevers.threads"
PREFECT_FLOW_RUN_ID = "prefect.flow_run_id"
"""Ids of all flow runs that worked on the run, the newest last, parted by commas."""
PREFECT_FLOW_RUN_URL = "prefect.flow_run_url"
RERUN_OF = "twolevers.rerun_of"
"""Id of the run that this one repeats."""
RESUMED = "twolevers.resumed"
"""Name of the checkpoint from which training went on last."""
EVALUATION_OF = "twolevers.evaluation_of"
"""Id of the run whose model an evaluation is of."""
JUDGE = "twolevers.judge.name"
"""Under which the figures of the newest judge stand, below `judge/`."""
JUDGE_STOPPED = "twolevers.judge.stopped"
"""Why the newest judgement came to no end; `no` where it did."""
DESCRIPTION = "mlflow.note.content"
SUMMARY_FILE = "summary.json"
EVALUATION_FILE = "evaluation.json"
OPTIONS_FILE = "options.json"
CLASSIFY_OPTIONS_FILE = "classify-options.json"
REGISTERED = "twolevers.registered"
"""Name and number of the model version that a run became."""

TEST_ACCURACY = "final/test_accuracy"
"""Of a classification, on its test split."""


def score_metric(role: str, score: str) -> str:
    """`tuned/exact_match`."""
    return f"{role}/{score}"
