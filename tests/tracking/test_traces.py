"""Answers as traces, read back by MLflow's own search, as its evaluation pages do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.run_tracker import MlflowTracker
from twolevers.tracking.store import Store
from twolevers.tracking.traces import ScoredAnswer, Verdict, computed


@pytest.fixture
def tracker(home: Home, settings: Settings, store: Store) -> Iterator[MlflowTracker]:
    kind = names.EVALUATION
    with open_run(home=home, settings=settings, name="a run", kind=kind) as tracker:
        yield tracker


def judged(answer: str, score: float) -> ScoredAnswer:
    verdicts = computed("Paris.", answer) | {"judge": Verdict(score, "Too short.", "llama3")}
    return ScoredAnswer("Name the capital.", "Fränce 🇫🇷", answer, "Paris.", verdicts, "facts")


def test_an_answer_is_a_trace_of_its_run_with_all_that_is_known_of_it(
    tracker: MlflowTracker, store: Store
) -> None:
    tracker.log_answers("tuned", [judged("Paris", 90.0)])

    [trace] = store.client.search_traces(locations=[store.experiment_id], run_id=tracker.run_id)
    [span] = trace.data.spans
    assert span.inputs == {"input": "Name the capital.\n\nFränce 🇫🇷"}
    assert span.outputs == "Paris"
    assert trace.info.tags["task"] == "facts"
    found = {one.name: one for one in trace.info.assessments}
    assert found["expected_response"].expectation.value == "Paris."
    assert {name: one.feedback.value for name, one in found.items() if one.feedback} == {
        "exact_match": False,
        "token_f1": 1.0,
        "judge": 90.0,
    }
    judge = found["judge"]
    assert (judge.rationale, judge.source.source_type, judge.source.source_id) == (
        "Too short.",
        "LLM_JUDGE",
        "llama3",
    )
    assert found["token_f1"].source.source_type == "CODE"


def test_later_answers_replace_the_earlier_ones_and_no_other_runs(
    tracker: MlflowTracker, store: Store, home: Home, settings: Settings
) -> None:
    kind = names.EVALUATION
    with open_run(home=home, settings=settings, name="another", kind=kind) as other:
        other.log_answers("tuned", [judged("Rome", 0.0)])
    tracker.log_answers("tuned", [judged(str(number), 1.0) for number in range(120)])
    tracker.log_answers("tuned", [judged("Paris", 90.0), judged("Paris.", 100.0)])

    def answers(run_id: str) -> list[object]:
        found = store.client.search_traces(locations=[store.experiment_id], run_id=run_id)
        return sorted(trace.data.spans[0].outputs for trace in found)

    assert answers(tracker.run_id) == ["Paris", "Paris."]
    assert answers(other.run_id) == ["Rome"]


def test_answers_of_a_run_that_made_a_model_stand_in_runs_beside_it(
    home: Home, settings: Settings, store: Store
) -> None:
    """MLflow's page of evaluations leaves out runs with a model."""
    with open_run(home=home, settings=settings, name="nano") as trained:
        trained.log_answers("base", [judged("Rome", 0.0)])
        trained.log_answers("tuned", [judged("Rome", 0.0)])
        trained.log_answers("tuned", [judged("Paris", 80.0), judged("Paris.", 100.0)])

    beside = store.client.search_runs([store.experiment_id], "tags.`twolevers.kind` = 'answers'")
    assert {run.info.run_name: run.info.status for run in beside} == {
        "base answers · nano": "FINISHED",
        "tuned answers · nano": "FINISHED",
    }
    [tuned] = [run for run in beside if run.info.run_name == "tuned answers · nano"]
    means = {"judge/mean": 90.0, "exact_match/mean": 0.5, "token_f1/mean": 1.0}
    assert tuned.data.metrics == means | {"judge/coverage": 1.0}
    assert tuned.data.tags["twolevers.evaluation_of"] == trained.run_id
    found = store.client.search_traces(
        locations=[store.experiment_id], run_id=tuned.info.run_id, include_spans=False
    )
    assert len(found) == 2


def test_a_store_that_takes_no_traces_fails_nothing(
    tracker: MlflowTracker, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracing.client import TracingClient

    def refuse(*_: object) -> None:
        raise MlflowException("no traces here")

    monkeypatch.setattr(TracingClient, "start_trace", refuse)
    tracker.log_answers("tuned", [judged("Paris", 90.0)])
    assert tracker.flush()
    tags = store.client.get_run(tracker.run_id).data.tags
    assert tags["twolevers.not_stored"] == "its answers do not stand in MLflow's evaluation pages"
