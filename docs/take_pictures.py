"""Takes the README's pictures of both web interfaces: `python docs/take_pictures.py`.

Starts each interface over this home's runs, opens the newest run in headless Chromium (Debian's
package `chromium`) and writes docs/mlflow-run.png (its loss curve) and docs/prefect-run.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

from twolevers.environment import prepare_environment
from twolevers.settings import load_settings
from twolevers.tracking.queries import find_run
from twolevers.tracking.store import open_store

DOCS = Path(__file__).parent
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip


@contextmanager
def interface(which: str, port: int, ready: str) -> Iterator[str]:
    """The address of a running interface."""
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "ui", which, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        for _ in range(240):
            try:
                if httpx.get(address + ready, timeout=2, trust_env=False).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def picture(address: str, name: str, size: tuple[int, int]) -> None:
    """Opens a page, gives it time to draw, and writes the picture."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Install Chromium first (Debian: apt-get install chromium).")
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=list(QUIET))
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        page.goto(address)
        page.wait_for_timeout(15_000)
        close = page.get_by_label("Close", exact=True)
        if close.count():
            close.first.click()
            page.wait_for_timeout(1_000)
        page.screenshot(path=DOCS / name)
        browser.close()
    print(DOCS / name)


def main() -> None:
    home = prepare_environment()
    run = find_run("latest", home, load_settings())
    experiment = open_store(home, load_settings()).experiment_id
    with interface("mlflow", 5701, "/health") as address:
        page = f"{address}/#/experiments/{experiment}/runs/{run.run_id}"
        picture(f"{page}/artifacts/loss-curve.png", "mlflow-run.png", (1500, 900))
    with interface("prefect", 4701, "/api/health") as address:
        picture(
            f"{address}/runs/flow-run/{run.prefect_flow_run_id}", "prefect-run.png", (1400, 1000)
        )


if __name__ == "__main__":
    main()
