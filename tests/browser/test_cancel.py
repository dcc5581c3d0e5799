"""Cancel, pressed in mid-training, and a second run that goes on from there."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import start_run
from pages import DeploymentPage, RunPage
from playwright.sync_api import Page, expect
from servers import Servers, wait_until

from twolevers.files import sha256_of


def test_a_cancelled_run_ends_with_the_same_weights(
    page: Page, servers: Servers, data: Path, undisturbed: str
) -> None:
    run = start_run(page, servers, data)
    wait_until("the first steps", lambda: steps(run)[0] >= 3)
    run.press("Cancel", confirm="Confirm")
    run.wait_for("Cancelled")
    done, all_steps = steps(run)
    assert 3 <= done < all_steps
    killed = servers.tracked(run.id)
    assert killed.status == "KILLED"
    page.goto(f"{servers.mlflow}/#/experiments/1/runs/{killed.run_id}")
    expect(page.locator("body")).to_contain_text("Killed")

    # The cancelled run says what to go on from.
    said = run.open_artifact("fine-tune-stopped")
    expect(said).to_contain_text(f"Stopped after {done} of {all_steps} steps")
    [named] = {*re.findall(r"--resume (\w+)", said.inner_text())}
    form = DeploymentPage(page, servers, "fine-tune").open_form()
    form.fill(resume_from=named)
    resumed = form.start(servers)
    resumed.wait_for("Completed")
    expect(resumed.tab("logs")).to_contain_text(f"after {done} steps")
    ended, whole = servers.tracked(resumed.id), servers.tracked(undisturbed)
    assert (ended.run_id, ended.status) == (killed.run_id, "FINISHED")
    assert ended.flow_run_ids == [run.id, resumed.id]
    assert ended.checkpoint
    assert whole.checkpoint
    files = [one.checkpoint / "model.safetensors" for one in (ended, whole) if one.checkpoint]
    assert sha256_of(files[0]) == sha256_of(files[1])


def steps(run: RunPage) -> tuple[int, int]:
    """Steps done and to be done, as the progress artifact says; zeros before there is one."""
    for artifact in run.servers.of_run("artifacts", run.id):
        if found := re.match(r"(\d+) of (\d+) steps", artifact["description"] or ""):
            return int(found[1]), int(found[2])
    return 0, 0
