"""`fine-tune` from the form to its artifacts and to its run in MLflow."""

from __future__ import annotations

import re

import pytest
from pages import RunPage, follow
from playwright.sync_api import Page, expect
from servers import Servers

ARTIFACTS = {
    "fine-tune-summary", "fine-tune-scores", "fine-tune-scores-by-kind", "fine-tune-loss-curve",
    "fine-tune-mlflow-run",
}  # fmt: skip
STAGES = (
    r"fetch dataset .*instructions\.json", r"fetch weights gpt2-nano \(7M\)", "tokenise .*",
    "forecast", r"fine-tune gpt2-nano \(7M\) on .+", "generate with the base model",
    "generate with the tuned model", "evaluate the base model", "evaluate the tuned model",
    "report",
)  # fmt: skip


@pytest.fixture
def run(page: Page, servers: Servers, undisturbed: str) -> RunPage:
    """The completed run's page."""
    return RunPage(page, servers, undisturbed).open()


def test_the_run_is_what_the_form_said(run: RunPage) -> None:
    expect(run.page.locator(".page-heading-flow-run")).to_contain_text("gpt2-nano (7M) on cpu")
    listed = run.tab("task-runs")
    expect(listed).to_contain_text(f"{len(STAGES)} Task runs")
    names = [one["name"] for one in run.servers.of_run("task_runs", run.id)]
    for stage in STAGES:
        [name] = [name for name in names if re.fullmatch(stage, name)]
        expect(listed.get_by_text(name, exact=True)).to_be_visible()
    tracked = run.servers.tracked(run.id)
    assert tracked.status == "FINISHED"
    params = {name: tracked.params[name] for name in ("model", "device", "epochs")}
    assert params == {"model": "gpt2-nano (7M)", "device": "cpu", "epochs": "1"}


def test_its_artifacts_can_be_read(run: RunPage) -> None:
    summary = run.servers.command.summary(run.id)
    cards = run.tab("artifacts").locator(".artifact-card__title")
    expect(cards).to_have_count(len(ARTIFACTS))
    assert {*cards.all_inner_texts()} == ARTIFACTS

    shown = run.open_artifact("fine-tune-summary")
    loss = f"{summary['val_loss_before']:.3f} → {summary['val_loss_after']:.3f}"
    for text in (summary["hardware"], summary["precision"], f"validation loss: {loss}"):
        expect(shown).to_contain_text(text)

    shown = run.open_artifact("fine-tune-scores")
    for score in ("validation loss", "exact match", "token F1", "ROUGE-L", "chrF"):
        expect(shown).to_contain_text(score)
    for role in ("base", "tuned"):
        expect(shown).to_contain_text(f"{round(summary[role]['chrf'], 4):g}")

    picture = run.open_artifact("fine-tune-loss-curve").locator("img")
    expect(picture).to_be_visible()
    drawn = picture.evaluate("picture => [picture.complete, picture.naturalWidth]")
    assert drawn[0]
    assert drawn[1] > 500

    shown = run.open_artifact("fine-tune-progress", of_a_stage=True)
    expect(shown).to_contain_text("42 of 42 steps")
    expect(shown).to_contain_text("Progress: 100%")


def test_both_pages_lead_to_each_other(run: RunPage) -> None:
    tracked = run.servers.tracked(run.id)
    there = follow(run.open_artifact("fine-tune-mlflow-run").get_by_text("run in MLflow"))
    there.wait_for_url(f"{run.servers.mlflow}/**/runs/{tracked.run_id}*")
    shown = there.locator("body")
    expect(shown).to_contain_text(str(tracked.run_id))
    expect(shown).to_contain_text("Finished")
    back = follow(there.get_by_role("link", name="flow run in Prefect"))
    back.wait_for_url(f"{run.servers.prefect}/runs/flow-run/{run.id}")
