"""Retry, pressed on a run that failed in generation."""

from __future__ import annotations

from pathlib import Path

from conftest import start_run
from playwright.sync_api import Page, expect
from servers import Servers, wait_until

from twolevers.files import sha256_of

KEPT = (
    "fetch dataset", "fetch weights", "tokenise", "forecast", "fine-tune",
    "generate with the base",
)  # fmt: skip
ANEW = ("generate with the tuned", "evaluate the base", "evaluate the tuned", "report")


def test_retry_goes_on_at_the_stage_that_failed(page: Page, servers: Servers, data: Path) -> None:
    run = start_run(page, servers, data)
    folder = wait_until("run in MLflow", lambda: servers.run_folder(run.id))
    # A folder where the answers are to be written: generation fails as it would on a full disk.
    in_the_way = folder / "responses-tuned.jsonl"
    in_the_way.mkdir(parents=True)
    run.wait_for("Failed")
    expect(run.tab("logs")).to_contain_text("Is a directory")
    failed = servers.tracked(run.id)
    assert failed.status == "FAILED"
    weights = folder / "checkpoints" / "best" / "model.safetensors"
    trained = sha256_of(weights), weights.stat().st_mtime_ns
    began = {one["id"] for one in servers.of_run("task_runs", run.id)}

    in_the_way.rmdir()
    run.press("Retry", confirm="Retry")
    run.wait_for("Completed")
    retried = [one for one in servers.of_run("task_runs", run.id) if one["id"] not in began]
    states = {one["name"]: one["state"]["name"] for one in retried}
    assert len(states) == len(retried) == len(KEPT) + len(ANEW)
    for name, state in states.items():
        assert state == ("Cached" if name.startswith(KEPT) else "Completed"), name
    listed = run.tab("task-runs")
    for stage, state in (("tokenise", "Cached"), ("fine-tune", "Cached"), ("report", "Completed")):
        newest = listed.locator(".task-run-list-item, .state-list-item", has_text=stage).first
        expect(newest).to_contain_text(state)
    assert (sha256_of(weights), weights.stat().st_mtime_ns) == trained
    tracked = servers.tracked(run.id)
    assert (tracked.run_id, tracked.status) == (failed.run_id, "FINISHED")
