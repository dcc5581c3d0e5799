"""The home's tracking database: made on first use, upgraded, pointed to where the home lies now.

Several processes may come first at once, and any of them may be killed half-way: all changes
happen under a file lock, on a copy beside the database that then takes its place.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock

from twolevers.errors import InputError, Problem, TwoleversError


def prepare_database(path: Path, location: str) -> None:
    """Make the SQLite database usable; costs hundredths of a second where nothing is to do.

    Args:
        location: address of the folder that artifacts go to.

    Raises:
        InputError: the file is no MLflow database, or a newer MLflow's.
        TwoleversError: it is locked, or the disk is full.
    """
    from mlflow.store.db.utils import _get_latest_schema_revision

    if "?" in str(path):
        raise InputError(
            Problem(
                "home",
                str(path.parent.parent),
                "a path with `?` cannot stand in a database's address",
                "choose another folder (TWOLEVERS_HOME)",
            )
        )
    head = _get_latest_schema_revision()
    revision, found = _state(path)
    if revision != head or _moved(found, location):
        path.parent.mkdir(parents=True, exist_ok=True)
        from sqlalchemy.exc import OperationalError

        with FileLock(path.with_name(f".{path.name}.lock")):
            try:
                _bring_up_to(head, location, path)
            except (sqlite3.OperationalError, OperationalError) as error:
                if "disk is full" not in str(error):
                    raise
                raise TwoleversError(
                    f"There is no room to make or upgrade {path}. Make room there and try again."
                ) from error


def _state(path: Path) -> tuple[str | None, str | None]:
    """Schema revision and artifact location of the database; None where there is none yet.

    Raises:
        InputError: the file is no MLflow database.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return None, None
    try:
        # Not `mode=ro`: what a killed process left half-written has to be rolled back first.
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as database:
            database.execute("PRAGMA busy_timeout = 20000")
            revision = database.execute("SELECT version_num FROM alembic_version").fetchone()
            default = database.execute(
                "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
            ).fetchone()
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise TwoleversError(f"{path} is locked by another process; try again.") from error
        raise InputError(
            Problem(
                "tracking store",
                str(path),
                f"is no MLflow database ({error})",
                "move the file away; a new one is made",
            )
        ) from error
    location = default[0] if default else None
    # The default experiment's own folder is `<artifacts>/0`.
    root = location.removesuffix("/0") if location else None
    return (revision[0] if revision else None), root


def _moved(found: str | None, location: str) -> bool:
    """Whether artifacts are looked for in another home. A place that no home has is left alone:
    it belongs to a database that MLflow itself made."""
    return found is not None and found != location and found.endswith("/mlflow/artifacts")


def _bring_up_to(head: str, location: str, path: Path) -> None:
    """Make or upgrade the database. Held under the lock, so what it finds is looked at anew."""
    revision, found = _state(path)
    if revision is None:
        _create(path, location)
        return
    if revision != head:
        _upgrade(path, revision)
        found = _state(path)[1]
    if found and _moved(found, location):
        _relocate(path, found, location)


def _create(path: Path, location: str) -> None:
    """Beside its place, then renamed: a process killed half-way leaves nothing behind."""
    fresh = path.with_name(f".new.{path.name}")
    fresh.unlink(missing_ok=True)
    try:
        _make_store(fresh, location)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _make_store(path: Path, location: str) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", location)
    store.engine.dispose()


def _upgrade(path: Path, revision: str) -> None:
    """Upgrade a copy and write it back in one transaction; the old one is kept beside it.

    Migrations are not transactional: killed in the middle of one, the database is lost.
    """
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError
    from mlflow.store.db.utils import (
        _get_alembic_config,
        _upgrade_db,
        create_sqlalchemy_engine_with_retry,
    )

    try:
        ScriptDirectory.from_config(_get_alembic_config("")).get_revision(revision)
    except CommandError as error:
        raise InputError(
            Problem(
                "tracking store",
                str(path),
                f"was made by a newer MLflow (schema {revision})",
                "install that MLflow, or move the file away; a new one is made",
            )
        ) from error
    kept = path.with_name(f"{path.stem}.before-upgrade-{revision}{path.suffix}")
    copy = path.with_name(f".upgrade.{path.name}")
    _copy_database(path, kept)
    try:
        _copy_database(path, copy)
        engine = create_sqlalchemy_engine_with_retry(f"sqlite:///{copy}")
        _upgrade_db(engine)
        engine.dispose()
        _copy_database(copy, path)
    finally:
        copy.unlink(missing_ok=True)


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _relocate(path: Path, old: str, new: str) -> None:
    """The home was moved or copied: what pointed to its artifacts points to the new place."""
    columns = (
        ("experiments", "artifact_location"),
        ("runs", "artifact_uri"),
        ("logged_models", "artifact_location"),
        ("model_versions", "source"),
        ("model_versions", "storage_location"),
    )
    with closing(sqlite3.connect(path, timeout=20)) as database, database:
        for table, column in columns:
            database.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE substr({column}, 1, ?) = ?",
                (new, len(old) + 1, len(old), old),
            )
