"""`twolevers data` on 52,000 entries, as many as Stanford Alpaca has: found within 15 s?"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from benchmarks.tokenise import NUM_ENTRIES, mixed_entries
from twolevers.data.fetch import fetch_dataset
from twolevers.data.inspect import inspect
from twolevers.options import DataOptions
from twolevers.progress import Silent
from twolevers.report.data_page import data_html
from twolevers.settings import Home

BUDGET_SECONDS = 15.0


def measure(data: Path, runs: int = 3) -> str:
    """The core's work, from the file to the page; a process's imports are not in it."""
    entries = mixed_entries(json.loads(data.read_text(encoding="utf-8")), NUM_ENTRIES)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "entries.json"
        file.write_text(json.dumps(entries, indent=4, ensure_ascii=False), encoding="utf-8")
        dataset = fetch_dataset(str(file), Home(Path(name)), Silent())
        times = []
        for _ in range(runs):
            began = time.perf_counter()
            found = inspect(dataset, DataOptions(), seed=123, progress=Silent())
            page = data_html(found)
            times.append(time.perf_counter() - began)
    return (
        f"inspecting {NUM_ENTRIES:,} entries of {data.name}, mixed ({found.lengths['total']:,.0f} "
        f"tokens): {', '.join(f'{one:.1f}' for one in times)} s, the budget is "
        f"{BUDGET_SECONDS:.0f} s; {found.duplicates.count:,} repeat, "
        f"{found.near_duplicates.count:,} nearly; a page of {len(page) / 1e3:,.0f} kB"
    )
