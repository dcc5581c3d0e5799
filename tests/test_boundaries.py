"""Arrows point one way: flows → tasks → core; `mlflow/` never shadows the package."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import twolevers

ROOT = Path(__file__).resolve().parents[1]


def core_modules() -> list[str]:
    found = pkgutil.walk_packages(twolevers.__path__, "twolevers.")
    names = [module.name for module in found]
    allowed = ("twolevers.tracking.protocol",)
    return [n for n in names if not n.startswith("twolevers.tracking.") or n in allowed]


def test_core_imports_neither_prefect_nor_mlflow() -> None:
    imports = "\n".join(f"import {name}" for name in core_modules())
    script = f"{imports}\nimport sys\nprint([m for m in ('prefect', 'mlflow') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "[]"


def test_commands_do_not_import_prefect_before_its_server_is_known() -> None:
    """It reads the server's address at import, and starts one of its own where it finds none."""
    flows = {"classify", "evaluate", "fine_tune", "pretrain_nano", "rerun", "run_time_table"}
    names = sorted({file.stem for file in (ROOT / "flows").glob("*.py")} - flows - {"__init__"})
    script = "import sys, importlib\n" + "".join(
        f"importlib.import_module('flows.{name}')\nassert 'prefect' not in sys.modules, '{name}'\n"
        for name in names
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_core_does_not_reach_up() -> None:
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "from flows" not in text, file
        assert "from tasks" not in text, file


def test_mlflow_folder_does_not_shadow_the_package() -> None:
    # What runs left in artifacts/ is not the project's.
    assert not list((ROOT / "mlflow").glob("*.py"))
    result = subprocess.run(
        [sys.executable, "-c", "import mlflow; print(mlflow.start_run)"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "start_run" in result.stdout


def test_no_file_is_too_long_to_read() -> None:
    for folder in ("src", "flows", "tasks"):
        for file in (ROOT / folder).rglob("*.py"):
            lines = len(file.read_text(encoding="utf-8").splitlines())
            assert lines <= 320, f"{file.relative_to(ROOT)} has {lines} lines"
