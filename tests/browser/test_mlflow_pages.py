"""MLflow's pages as a user finds them after two runs."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from servers import Servers

from twolevers.tracking.run_info import RunInfo

TRAINING = "workflowType=machine_learning"
"""Without it a new browser shows MLflow's menu for applications of language models."""


@pytest.fixture(scope="module")
def runs(servers: Servers, data: Path, undisturbed: str) -> list[RunInfo]:
    """The run of the form, and a shorter one of the command that differs in its batches."""
    entries = json.loads(data.read_text(encoding="utf-8"))[:60]
    small = data.with_name("small.json")
    small.write_text(json.dumps(entries), encoding="utf-8")
    servers.command.run(
        "fine-tune", "--dataset", str(small), "--batch-size", "4", "--max-new-tokens", "2"
    )
    return [servers.tracked(undisturbed), servers.tracked("latest")]


def go(page: Page, servers: Servers, path: str) -> None:
    page.goto(f"{servers.mlflow}/#{path}{'&' if '?' in path else '?'}{TRAINING}")


def experiment(servers: Servers) -> str:
    found = httpx.get(
        f"{servers.mlflow}/api/2.0/mlflow/experiments/get-by-name",
        params={"experiment_name": "fine-tune"},
    )
    return str(found.raise_for_status().json()["experiment"]["experiment_id"])


def test_the_runs_page_tells_runs_apart(page: Page, servers: Servers, runs: list[RunInfo]) -> None:
    go(page, servers, f"/experiments/{experiment(servers)}/runs?viewStateShareKey=twolevers")
    shown = page.locator("body")
    for column in ("best_val_loss", "base/exact_match", "tuned/exact_match", "tokens_per_second"):
        expect(shown).to_contain_text(column)
    for run in runs:
        expect(page.get_by_role("link", name=run.name).first).to_be_visible()
    expect(shown).to_contain_text(str(runs[0].metrics["best_val_loss"])[:8])


def test_two_runs_are_compared(page: Page, servers: Servers, runs: list[RunInfo]) -> None:
    ids = json.dumps([run.run_id for run in runs], separators=(",", ":"))
    number = json.dumps([experiment(servers)])
    go(page, servers, f"/compare-runs?runs={ids}&experiments={number}")
    shown = page.locator("body")
    expect(shown).to_contain_text("Comparing 2 Runs")
    for run in runs:
        expect(shown).to_contain_text(str(run.run_id))
    row = page.locator("tr", has=page.get_by_text("batch_size", exact=True)).last
    assert row.inner_text().split()[-2:] == ["8", "4"]


def test_charts_are_drawn(page: Page, servers: Servers, runs: list[RunInfo]) -> None:
    here = f"/experiments/{experiment(servers)}/runs/{runs[0].run_id}"
    go(page, servers, f"{here}/model-metrics")
    for section in ("train", "val", "tuned"):
        expect(page.get_by_text(section, exact=True).first).to_be_visible()
    go(page, servers, f"{here}/artifacts/charts.html")
    charts = page.frame_locator("iframe")
    titles = charts.locator(".gtitle")
    for title in ("Loss by steps", "Loss by tokens", "Speed"):
        expect(titles.get_by_text(title, exact=True)).to_be_visible()


def test_the_best_model_is_registered(page: Page, servers: Servers, runs: list[RunInfo]) -> None:
    go(page, servers, "/models/twolevers-gpt2-nano")
    shown = page.locator("body")
    expect(shown).to_contain_text("mlflow models serve -m models:/twolevers-gpt2-nano@best")
    for alias in ("best", "newest"):
        expect(shown).to_contain_text(f"@ {alias}")
    page.get_by_role("link", name="Version 1", exact=True).first.click()
    expect(shown).to_contain_text("Source Run")
    expect(shown).to_contain_text("gpt2-nano (7M) · cpu")
