"""Takes the README's pictures of both web interfaces: `python docs/take_pictures.py`.

Needs `make up` running over this home with a finished run in it, Chromium, and the extra `chat`.
Opens the newest run, its answers where it was judged, the form of `fine-tune`, and the page of
`make chat`, and writes docs/mlflow-run.png, mlflow-answers.png, prefect-run.png, prefect-form.png
and chat-page.png.
"""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parent
CHAT_PORT = 7861
sys.path.insert(0, str(DOCS.parent / "tests" / "browser"))

from chromium import INSTALL, find_chromium, launch  # noqa: E402

from flows.running import server_address  # noqa: E402
from twolevers.environment import prepare_environment  # noqa: E402
from twolevers.settings import load_settings  # noqa: E402
from twolevers.tracking import names  # noqa: E402
from twolevers.tracking.queries import find_run  # noqa: E402
from twolevers.tracking.store import Store, open_store  # noqa: E402


def picture(browser: Browser, address: str, name: str, size: tuple[int, int]) -> None:
    """Opens a page, gives it time to draw, and writes the picture."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    page.goto(address)
    page.wait_for_timeout(15_000)
    close = page.get_by_label("Close", exact=True)
    if close.count():
        close.first.click()
        page.wait_for_timeout(1_000)
    save(page, name)


def chat_picture(browser: Browser, instruction: str) -> None:
    """Asks both models on the page of the newest run, and writes the picture."""
    command = [sys.executable, "-m", "flows.cli", "chat", "--web", "--port", str(CHAT_PORT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        if not any("Ctrl-C ends it" in line for line in process.stdout):
            sys.exit("The page of twolevers chat --web does not start.")
        page = browser.new_page(viewport={"width": 1100, "height": 700})
        page.goto(f"http://127.0.0.1:{CHAT_PORT}")
        page.get_by_label("Instruction").fill(instruction)
        page.get_by_label("Instruction").press("Enter")
        page.get_by_text("Which one is better?").wait_for()
        save(page, "chat-page.png")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def save(page: Page, name: str) -> None:
    """Writes what is shown, in few colours, and closes the page."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    page.close()
    shown.quantize(128).save(DOCS / name, optimize=True)
    print(DOCS / name)


def find(prefect: str, what: str, **wanted: Any) -> str:
    """The id of the one thing of Prefect's that a filter lets through."""
    answer = httpx.post(f"{prefect}/api/{what}/filter", json=wanted, trust_env=False)
    return str(answer.raise_for_status().json()[0]["id"])


def answers_of(store: Store, run_id: str) -> dict[str, str]:
    """The runs in MLflow that hold the answers of a run's models, by role."""
    found = store.client.search_runs(
        [store.experiment_id],
        f"tags.`{names.KIND}` = '{names.ANSWERS}' and tags.`{names.EVALUATION_OF}` = '{run_id}'",
    )
    return {one.data.tags[names.ROLE]: one.info.run_id for one in found}


def main() -> None:
    home = prepare_environment()
    prefect, mlflow = (server_address(home, name) for name in ("Prefect", "MLflow"))
    chromium = find_chromium()
    if not (prefect and mlflow):
        sys.exit("Start both web interfaces first: make up")
    if not chromium:
        sys.exit(INSTALL)
    run = find_run("latest", home, load_settings())
    store = open_store(home, load_settings())
    experiment = store.experiment_id
    flow_run = run.flow_run_ids[-1]
    form = find(prefect, "deployments", deployments={"name": {"any_": ["fine-tune"]}})
    page = f"{mlflow}/#/experiments/{experiment}/runs/{run.run_id}"
    with sync_playwright() as player:
        browser = launch(player, chromium)
        picture(browser, f"{page}/artifacts/loss-curve.png", "mlflow-run.png", (1500, 900))
        if answers := answers_of(store, str(run.run_id)):
            shown = f"selectedRunUuid={answers['tuned']}&compareToRunUuid={answers['base']}"
            address = f"{mlflow}/#/experiments/{experiment}/evaluation-runs?{shown}"
            picture(browser, address, "mlflow-answers.png", (2100, 700))
        for address, name, size in (
            (f"runs/flow-run/{flow_run}", "prefect-run.png", (1400, 1000)),
            (f"deployments/deployment/{form}/run", "prefect-form.png", (1200, 800)),
        ):
            picture(browser, f"{prefect}/{address}", name, size)
        chat_picture(browser, "What is the capital of Bulgaria?")
        browser.close()


if __name__ == "__main__":
    main()
