"""The run-time table kept in MLflow: a run of its own kind, which trains nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from twolevers.report.charts import table_chart_html
from twolevers.report.pages import table_html
from twolevers.report.pictures import heat_map
from twolevers.report.table import about, cells_frame, table_frame, table_markdown
from twolevers.run_times import RunTimes
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.pages import flow_run_tags


def track_table(table: RunTimes, not_measured: Sequence[str], flow_run_id: str | None) -> str:
    """Id of the MLflow run that holds the table: as cells, as a page and as a picture."""
    tags = {names.FINGERPRINT: table.fingerprint, **flow_run_tags(flow_run_id)}
    with (
        open_run(
            home=Home(),
            settings=load_settings(),
            name=f"run-time table · {about(table)}",
            tags=tags,
            kind=names.RUN_TIME_TABLE,
        ) as tracker,
        tempfile.TemporaryDirectory() as temporary,
    ):
        picture = heat_map(
            Path(temporary) / "run-time-table.png", table_frame(table), title="Two epochs, median"
        )
        page_file = Path(temporary) / "run-time-table.html"
        page_file.write_text(
            table_html(table, not_measured, picture=picture.read_bytes()), encoding="utf-8"
        )
        chart_file = Path(temporary) / "run-time-chart.html"
        chart_file.write_text(table_chart_html(table), encoding="utf-8")
        tracker.log_table(cells_frame(table), "run-time-table.json")
        for file in (picture, page_file, chart_file):
            tracker.log_file(file)
        tracker.set_description(table_markdown(table, not_measured))
        return tracker.run_id
