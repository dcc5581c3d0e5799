"""The browser: Debian's Chromium, headless, that fetches nothing by itself."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

INSTALL = "install Chromium first (Debian: apt-get install chromium)"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip


def find_chromium() -> str | None:
    """Its path, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def launch(player: Playwright, executable: str) -> Browser:
    """A browser without a window."""
    return player.chromium.launch(executable_path=executable, args=list(FLAGS), timeout=120_000)
