"""What a result was made with: library versions, the code's commit, machine and user."""

from __future__ import annotations

import getpass
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from twolevers import __version__

LIBRARIES = (
    "torch",
    "prefect",
    "mlflow",
    "numpy",
    "pandas",
    "pyarrow",
    "safetensors",
    "tiktoken",
    "huggingface_hub",
    "transformers",
)


def library_versions() -> dict[str, str]:
    """Versions of Python, twolevers and the libraries, read without importing any of them.

    A library that is not installed is left out.
    """
    versions = {"python": platform.python_version(), "twolevers": __version__}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_commit(folder: Path | None = None) -> tuple[str | None, bool]:
    """The commit of the clone at `folder` and whether tracked files differ from it.

    Without `folder`, the clone that this code runs from. `(None, False)` where `folder` is not
    the top of a clone: code installed somewhere below a foreign repository is not its commit.
    """
    folder = folder or Path(__file__).resolve().parents[2]
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != folder.resolve():
        return None, False
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None, False
    return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def user_name() -> str:
    """The user's login name; a container may know none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def environment_tags() -> dict[str, str]:
    """Flat tags that tell what a run was made with, for whoever tracks it."""
    commit, dirty = git_commit()
    tags = {f"version.{name}": version for name, version in library_versions().items()}
    tags["platform"] = platform.platform()
    if commit:
        tags["git.commit"] = commit
        tags["git.dirty"] = str(dirty).lower()
    return tags
