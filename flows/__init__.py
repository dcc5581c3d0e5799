"""What a user triggers: order and parameters. Prefect reads its settings at import, so the
environment is prepared first."""

import sys
from pathlib import Path

# A worker fetches the code for a run: that brings its own core, whatever core is installed there.
_core = Path(__file__).resolve().parents[1] / "src"
if (_core / "twolevers").is_dir() and str(_core) not in sys.path:
    sys.path.insert(0, str(_core))

from twolevers.environment import prepare_environment  # noqa: E402

prepare_environment()
