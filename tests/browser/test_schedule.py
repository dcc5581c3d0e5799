"""A schedule switched on in the UI."""

from __future__ import annotations

from typing import Any

from pages import DeploymentPage, open_tab
from playwright.sync_api import Page, expect
from servers import Servers, wait_until


def test_a_schedule_switched_on_plans_runs(page: Page, servers: Servers) -> None:
    DeploymentPage(page, servers, "rerun")
    switch = page.locator(".deployment-schedule-card", has_text="nightly").get_by_role("switch")
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    planned = wait_until("scheduled runs of rerun", lambda: scheduled(servers), 180)
    page.reload()
    runs = open_tab(page, "upcoming").locator(".flow-run-list-item")
    expect(runs).to_have_count(len(planned))
    for run in runs.all():
        expect(run).to_contain_text("Scheduled")
        expect(run).to_contain_text("03:00:00 AM")
    assert all(run["parameters"] == {"run": "latest"} for run in planned)

    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    wait_until("no scheduled run of rerun", lambda: not scheduled(servers))


def scheduled(servers: Servers) -> list[dict[str, Any]]:
    wanted = {"name": {"any_": ["rerun"]}}
    state = {"state": {"type": {"any_": ["SCHEDULED"]}}}
    return servers.find("flow_runs", deployments=wanted, flow_runs=state)
