"""One `twolevers up` and one browser for all; a test that fails leaves its page as a picture."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from chromium import INSTALL, find_chromium, launch
from pages import SECONDS, DeploymentPage, RunPage
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright
from servers import Servers, servers_up

from twolevers.embedded import DATASET_PATH

expect.set_options(timeout=60 * SECONDS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    executable = find_chromium()
    if executable is None:
        pytest.skip(f"no browser: {INSTALL}")
    with sync_playwright() as player:
        browser = launch(player, executable)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def servers(
    browser: Browser, own_slots: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """`twolevers up` over a fresh home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PREFECT_API_URL", "PREFECT_UI_URL", "TWOLEVERS_TRACKING_URI"):
            patch.delenv(name, raising=False)
        with servers_up(tmp_path_factory.mktemp("home")) as up:
            yield up


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of a size that people have."""
    with browser.new_context(viewport={"width": 1400, "height": 1000}) as context:
        context.set_default_timeout(60 * SECONDS)
        yield context.new_page()


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 400 entries of the embedded data: 340 to train on, 42 steps an epoch."""
    entries = json.loads(DATASET_PATH.read_text(encoding="utf-8"))[:400]
    path = tmp_path_factory.mktemp("data") / "instructions.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def start_run(page: Page, servers: Servers, data: Path, **more: str) -> RunPage:
    """A short fine-tuning with both levers turned, started from the form."""
    form = DeploymentPage(page, servers, "fine-tune").open_form()
    form.choose("model", "gpt2-nano (7M)")
    form.choose("device", "cpu")
    form.fill(dataset=str(data), epochs=1, max_new_tokens=16, **more)
    return form.start(servers)


@pytest.fixture(scope="session")
def undisturbed(browser: Browser, servers: Servers, data: Path) -> str:
    """The flow run that `start_run` starts, once it has completed."""
    with browser.new_context() as context:
        run = start_run(context.new_page(), servers, data)
        run.wait_for("Completed")
    return run.id


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what the browser showed when a test failed, and say where."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.failed and report.when == "call" and page is not None:
        folder = Path(tempfile.mkdtemp(prefix=f"{item.name}-"))
        page = page.context.pages[-1]
        try:
            page.screenshot(path=folder / "page.png")
            text = f"{page.url}\n\n{page.inner_text('body')}"
            (folder / "page.txt").write_text(text, encoding="utf-8")
        except Error as error:
            folder = Path(f"not to be had: {error}")
        report.sections.append(("the page when it failed", str(folder)))
    return report
