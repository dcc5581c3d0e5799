"""Starting flows from a terminal, and opening the two web interfaces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from flows.addresses import web_addresses
from flows.ports import port_problem
from flows.quick_imports import quick_imports
from flows.temporary_server import prefect_server
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, RunStopped, did_you_mean
from twolevers.grid import Grid
from twolevers.options import FineTuneOptions
from twolevers.plan import make_plan, options_from
from twolevers.settings import Home, load_settings
from twolevers.tracking.runs import FINE_TUNINGS
from twolevers.tracking.store import open_store, prepare_store

# The flow, and what its stages import at first use; the wait for the server has room for it.
IMPORTED_LATE = (
    "flows.fine_tune",
    "torch._dynamo",  # PyTorch's optimizers
    "sacrebleu.metrics",
    "matplotlib.figure",
)


def run_fine_tuning(given: dict[str, Any], resume: str | None) -> None:
    """Run the flow with progress shown, then print what came out.

    Raises:
        InputError: before anything is started, for what can be seen by then.
    """
    home = writable_home()
    options = options_from(given, load_settings())
    plan, resume = FINE_TUNINGS.plan_of_command(options, resume)
    if resume:
        options = plan.options  # all of the run's own

    def prepare() -> None:
        from flows.views import print_plan

        print_plan(plan, resume)

    with prefect_ready(home, prepare):
        from flows.fine_tune import fine_tune

        arguments = {name: getattr(options, name) for name in type(options).model_fields}
        summary = fine_tune(**arguments, resume_from=resume)
    from flows.views import print_summary

    print_summary(summary.model_dump(mode="json"), home)


def run_again(run: str) -> None:
    """Run the flow `rerun` with progress shown, then print how far apart the two runs end.

    Raises:
        InputError: no such run, or what it was made of is not on this machine.
    """
    from twolevers.tracking.rerun import find_original

    home = writable_home()
    original = find_original(run)
    plan = make_plan(original.options, load_settings(), data_is_kept=True)

    def prepare() -> None:
        from flows.views import print_plan

        print_plan(plan, rerun_of=original.run_id)

    with prefect_ready(home, prepare):
        from flows.rerun import rerun

        comparison = rerun(original.run_id)
    print(f"\n{comparison}")
    print(f"see it: twolevers show {comparison.run_id[:8]}")


def measure_table(levers: dict[str, Any], options: FineTuneOptions) -> Grid:
    """Run the flow `run-time-table` with progress shown.

    Args:
        levers: the flow's own parameters, where they are not its defaults.
        options: what all cells have in common; its levers are not used.

    Raises:
        InputError: a name that means nothing.
    """
    own = {"model", "device", "precision", "weights"}
    shared = {name: getattr(options, name) for name in {*type(options).model_fields} - own}
    with prefect_ready(writable_home()):
        from flows.run_time_table import run_time_table

        return run_time_table(**levers, **shared)


@contextmanager
def prefect_ready(
    home: Home,
    prepare: Callable[[], None] = lambda: None,
    imported: Sequence[str] = IMPORTED_LATE,
) -> Iterator[None]:
    """The block can run flows, with their progress shown in the terminal.

    Args:
        prepare: called while the server starts, which takes seconds.
        imported: modules that the flow will need, imported meanwhile.

    Raises:
        RunStopped: the flow was stopped.
    """
    # Prefect's own log lines would tear the progress bars; its server keeps them all the same.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    with prefect_server(home) as wait_until_ready:
        with quick_imports():
            from prefect import tags
            from prefect.exceptions import CancelledRun

            from flows.terminal import shown
            from tasks.tags import TAG

            prepare()
            prepare_store(home, load_settings())
            for module in imported:
                import_module(module)
        wait_until_ready()
        try:
            with shown(), tags(TAG):
                yield
        except CancelledRun as stopped:
            raise RunStopped(str(stopped)) from stopped


UIS = {"mlflow": 5000, "prefect": 4200}
UI_NAMES = {"mlflow": "MLflow", "prefect": "Prefect"}


def open_ui(which: str, port: int | None) -> None:
    """Become the server of one web interface, on loopback, over this home's runs; where one
    runs already, or is set to be elsewhere, say where.

    Raises:
        InputError: no such interface, or its port is taken.
    """
    if which not in UIS:
        raise InputError(
            Problem(
                "ui", which, f"no such interface{did_you_mean(which, UIS)}", "mlflow or prefect"
            )
        )
    home = writable_home()
    if address := web_addresses().get(which):
        print(f"{UI_NAMES[which]} runs already: {address}")
        return
    port = port or UIS[which]
    if problem := port_problem("127.0.0.1", port, "--port"):
        raise InputError(problem)
    tool = [sys.executable, "-m", which]
    if which == "mlflow":
        store = open_store(home, load_settings())
        print(f"MLflow on http://127.0.0.1:{port}  (Ctrl-C ends it)", flush=True)
        print(f"the runs: http://127.0.0.1:{port}{store.runs_path}", flush=True)
        arguments = ["server", "--backend-store-uri", store.uri, "--workers", "1"]
        arguments += ["--default-artifact-root", str(home.mlflow / "artifacts")]
    else:
        print(f"Prefect on http://127.0.0.1:{port}  (Ctrl-C ends it)", flush=True)
        # The page in the browser asks this address, whatever the port.
        os.environ["PREFECT_UI_API_URL"] = f"http://127.0.0.1:{port}/api"
        arguments = ["server", "start"]
    arguments += ["--host", "127.0.0.1", "--port", str(port)]
    os.execv(sys.executable, [*tool, *arguments])
