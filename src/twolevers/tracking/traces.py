"""Answers as traces with assessments: what MLflow's pages for evaluations show and compare.

`mlflow.genai.evaluate` makes the same, one request for every assessment; here a trace and all of
its assessments are one, and the spans of all traces another. As there, a trace lasts 0 s: it is
made when the answer has long been given, and MLflow knows no trace without an end.
"""

from __future__ import annotations

import json
import secrets
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twolevers.evaluation.metrics import exact_match, token_f1
from twolevers.tracking import names

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Assessment, Run, Span, TraceInfo

PREVIEW = 1000
"""Characters of question and answer in the list of traces."""
_PAGE = 100


@dataclass(frozen=True)
class Verdict:
    """One score of one answer."""

    value: float | bool
    reason: str = ""
    judge: str = ""
    """Name of the model that scored; empty where it was computed."""


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer of a model, what was asked, and what became of it."""

    instruction: str
    input: str
    answer: str
    reference: str
    verdicts: Mapping[str, Verdict]
    """By the name of the score."""
    kind: str = ""
    """Of the task."""


def computed(reference: str, answer: str) -> dict[str, Verdict]:
    """What needs no judge, of one answer."""
    return {
        "exact_match": Verdict(bool(exact_match([reference], [answer]))),
        "token_f1": Verdict(token_f1([reference], [answer])),
    }


def log_answers(
    client: MlflowClient, experiment_id: str, run_id: str, answers: Sequence[ScoredAnswer]
) -> None:
    """The answers of a run as its traces, in place of those that it had; the mean of each score as
    a metric, and beside a judge's the share that it scored.

    Raises:
        MlflowException: the store does not take them.
    """
    from mlflow.tracing.client import TracingClient

    delete_answers(client, experiment_id, run_id)
    tracing = TracingClient(client.tracking_uri)
    spans = []
    for answer in answers:
        info, span = _trace(answer, experiment_id, run_id)
        tracing.start_trace(info)
        spans.append(span)
    if spans:
        tracing.log_spans(experiment_id, spans)
    for name in dict.fromkeys(name for answer in answers for name in answer.verdicts):
        values = [float(one.verdicts[name].value) for one in answers if name in one.verdicts]
        client.log_metric(run_id, f"{name}/mean", sum(values) / len(values))
        if any(one.verdicts[name].judge for one in answers if name in one.verdicts):
            client.log_metric(run_id, f"{name}/coverage", len(values) / len(answers))


def run_of_answers(
    client: MlflowClient, experiment_id: str, run_id: str, role: str, name: str
) -> str:
    """Id of the run that holds the answers of one of a fine-tuning's models; made where missing.

    MLflow's page of evaluations leaves out runs that made a model, so these stand beside.
    """
    of = {names.KIND: names.ANSWERS, names.EVALUATION_OF: run_id, names.ROLE: role}
    for found in answers_of(client, experiment_id, run_id):
        if found.data.tags.get(names.ROLE) == role:
            return str(found.info.run_id)
    run = client.create_run(experiment_id, tags=of, run_name=f"{role} answers · {name}")
    client.set_terminated(run.info.run_id)
    return str(run.info.run_id)


def answers_of(client: MlflowClient, experiment_id: str, run_id: str) -> list[Run]:
    """The runs that hold the answers of a fine-tuning's models: none, one or two."""
    of = {names.KIND: names.ANSWERS, names.EVALUATION_OF: run_id}
    query = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in of.items())
    return list(client.search_runs([experiment_id], query, max_results=10))


def delete_answers(client: MlflowClient, experiment_id: str, run_id: str) -> None:
    """Remove the answers that a run holds."""
    while found := client.search_traces(
        locations=[experiment_id], run_id=run_id, max_results=_PAGE, include_spans=False
    ):
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in found])


def _trace(answer: ScoredAnswer, experiment_id: str, run_id: str) -> tuple[TraceInfo, Span]:
    from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

    key, now = secrets.token_bytes(16), time.time_ns()
    trace_id, question = f"tr-{key.hex()}", json.dumps(_question(answer), ensure_ascii=False)
    text = json.dumps(answer.answer, ensure_ascii=False)
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=now // 1_000_000,
        state=TraceState.OK,
        request_preview=question[:PREVIEW],
        response_preview=text[:PREVIEW],
        trace_metadata={TraceMetadataKey.SOURCE_RUN: run_id},
        tags={TraceTagKey.TRACE_NAME: "answer", **({"task": answer.kind} if answer.kind else {})},
        assessments=list(_assessments(answer, run_id)),
    )
    span = Span.from_dict(
        {
            "trace_id": b64encode(key).decode(),
            "span_id": b64encode(key[:8]).decode(),
            "parent_span_id": "",
            "name": "answer",
            "start_time_unix_nano": now,
            "end_time_unix_nano": now,
            "status": {"code": "STATUS_CODE_OK"},
            "attributes": {
                "mlflow.traceRequestId": json.dumps(trace_id),
                "mlflow.spanType": json.dumps("LLM"),
                "mlflow.spanInputs": question,
                "mlflow.spanOutputs": text,
            },
            "events": [],
        }
    )
    return info, span


def _question(answer: ScoredAnswer) -> dict[str, str]:
    # Of `input` MLflow's pages show the text; by equal inputs they find the question in other runs.
    return {"input": "\n\n".join(part for part in (answer.instruction, answer.input) if part)}


def _assessments(answer: ScoredAnswer, run_id: str) -> Iterable[Assessment]:
    from mlflow.entities import AssessmentSource, Expectation, Feedback
    from mlflow.entities.assessment_source import AssessmentSourceType

    human = AssessmentSource(AssessmentSourceType.HUMAN, "reference")
    yield Expectation(name="expected_response", value=answer.reference, source=human)
    for name, verdict in answer.verdicts.items():
        kind = AssessmentSourceType.LLM_JUDGE if verdict.judge else AssessmentSourceType.CODE
        yield Feedback(
            name=name,
            value=verdict.value,
            rationale=verdict.reason or None,
            source=AssessmentSource(kind, verdict.judge or f"twolevers {name}"),
            metadata={"mlflow.assessment.sourceRunId": run_id},
        )
