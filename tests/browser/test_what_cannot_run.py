"""The form says what there is; what cannot run is refused, with a reason on the page."""

from __future__ import annotations

import pytest
from pages import DeploymentPage, RunForm, RunPage
from playwright.sync_api import Page, expect
from servers import Servers

from twolevers.device import find_device

MODELS = [
    "from settings", "gpt2-nano (7M)", "gpt2-small (124M)", "gpt2-medium (355M)",
    "gpt2-large (774M)", "gpt2-xl (1558M)",
]  # fmt: skip


@pytest.fixture
def form(page: Page, servers: Servers) -> RunForm:
    return DeploymentPage(page, servers, "fine-tune").open_form()


def expect_refused(run: RunPage, *reasons: str) -> None:
    """Failed without a single stage, and without a run in MLflow; why stands on the page."""
    run.wait_for("Failed")
    expect(run.tab("task-runs")).to_contain_text("0 Task runs")
    assert run.servers.of_run("task_runs", run.id) == []
    logs = run.tab("logs")
    for reason in reasons:
        expect(logs).to_contain_text(reason)
    details = run.tab("details")
    details.get_by_text("See More").click()
    for reason in reasons:
        expect(run.page.locator("body")).to_contain_text(reason)


def test_drop_downs_hold_what_there_is(form: RunForm) -> None:
    assert form.options("model") == MODELS
    form.page.keyboard.press("Escape")
    devices = form.options("device")
    assert devices[:2] == ["from settings", "auto"]
    assert {*devices[2:]} == {"cpu", "mps", "cuda", *(f"cuda:{n}" for n in range(8))}
    form.page.keyboard.press("Escape")
    described = form.field("device")
    expect(described).to_contain_text(f"cpu: {find_device('cpu').hardware}")
    for name, text in (
        ("model", "the chapter's main choice"),
        ("dataset", "JSON, JSON Lines, CSV, TSV, Parquet"),
        ("epochs", "passes over the training split [epochs, 1 or more]"),
        ("dropout", "[probability, 0 or more, below 1]"),
        ("resume_from", "run id, checkpoint folder or latest"),
    ):
        expect(form.field(name)).to_contain_text(text)


def test_a_bound_is_refused_in_the_form(form: RunForm) -> None:
    form.fill(epochs=0)
    form.submit()
    message = "'training.epochs'. Failure reason: 0 is less than the minimum of 1"
    expect(form.page.get_by_text(message).first).to_be_visible()


def test_what_this_machine_cannot_is_refused(form: RunForm, servers: Servers) -> None:
    form.choose("device", "cuda:7")
    form.fill(max_length=2000)
    reasons = ("device 'cuda:7': this machine has no such device", "--max-length 2000", "1024")
    expect_refused(form.start(servers), *reasons)


def test_an_unknown_model_is_refused(form: RunForm, servers: Servers) -> None:
    form.write_json("model", '"gpt2-huge"')
    form.submit()
    expect(form.field("model")).to_contain_text("'gpt2-huge' is not one of ['from settings', ")
    form.page.get_by_text("Validate parameters").click()
    expect_refused(form.start(servers), "model 'gpt2-huge': no such model", "gpt2-nano (7M)")
