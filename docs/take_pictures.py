"""Takes the README's pictures of both web interfaces: `python docs/take_pictures.py`.

Needs `make up` running over this home with a finished run in it, and Chromium. Opens the newest
run, its answers where it was judged, and the form of `fine-tune`, and writes docs/mlflow-run.png,
mlflow-answers.png, prefect-run.png and prefect-form.png.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parent
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
        browser.close()


if __name__ == "__main__":
    main()
