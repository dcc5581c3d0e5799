"""Starting the main job from a terminal, and opening the two web interfaces."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from flows.quick_imports import quick_imports
from flows.temporary_server import prefect_server
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, RunStopped, did_you_mean
from twolevers.plan import options_from
from twolevers.settings import load_settings
from twolevers.tracking.runs import plan_run, resume_plan, run_to_continue
from twolevers.tracking.store import prepare_store

# What a run's stages import at first use; the wait for the server has room for it.
IMPORTED_LATE = (
    "torch._dynamo",  # PyTorch's optimizers
    "rouge_score.rouge_scorer",
    "sacrebleu.metrics",
    "matplotlib.figure",
)


def run_fine_tuning(given: dict[str, Any], resume: str | None) -> None:
    """Run the flow with progress shown, then print what came out.

    Raises:
        InputError: before anything is started, for what can be seen by then.
    """
    home = writable_home()
    # Prefect's own log lines would tear the progress bars; its server keeps them all the same.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    options = options_from(given, load_settings())
    if resume:
        # From here on the run's own id, and all of its options: `latest` may change meanwhile.
        resume = run_to_continue(resume)
        options = resume_plan(resume, options).options
    plan = plan_run(options, resume)
    with prefect_server(home) as wait_until_ready:
        # The server takes seconds to start: import and prepare meanwhile.
        with quick_imports():
            from prefect.exceptions import CancelledRun

            from flows.fine_tune import fine_tune
            from flows.terminal import shown
            from flows.views import print_plan, print_summary

            print_plan(plan, resume)
            prepare_store(home, load_settings())
            for module in IMPORTED_LATE:
                import_module(module)
        wait_until_ready()
        try:
            with shown():
                arguments = {name: getattr(options, name) for name in type(options).model_fields}
                summary = fine_tune(**arguments, resume_from=resume)
        except CancelledRun as stopped:
            raise RunStopped(str(stopped)) from stopped
    print_summary(summary.model_dump(mode="json"), home)


UIS = {"mlflow": 5000, "prefect": 4200}


def open_ui(which: str, port: int | None) -> None:
    """Become the server of one web interface, on loopback, over this home's runs."""
    if which not in UIS:
        raise InputError(
            Problem(
                "ui", which, f"no such interface{did_you_mean(which, UIS)}", "mlflow or prefect"
            )
        )
    home = writable_home()
    port = port or UIS[which]
    tool = [sys.executable, "-m", which]
    if which == "mlflow":
        store = prepare_store(home, load_settings())
        print(f"MLflow on http://127.0.0.1:{port}  (Ctrl-C ends it)", flush=True)
        arguments = ["server", "--backend-store-uri", store, "--workers", "1"]
        arguments += ["--default-artifact-root", str(home.mlflow / "artifacts")]
    else:
        print(f"Prefect on http://127.0.0.1:{port}  (Ctrl-C ends it)", flush=True)
        # The page in the browser asks this address, whatever the port.
        os.environ["PREFECT_UI_API_URL"] = f"http://127.0.0.1:{port}/api"
        arguments = ["server", "start"]
    arguments += ["--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [*tool, *arguments])
