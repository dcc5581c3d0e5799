import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from twolevers.errors import InputError, TwoleversError
from twolevers.settings import Home, Settings
from twolevers.tracking import database
from twolevers.tracking.store import (
    Store,
    artifact_location,
    find_experiment,
    open_store,
    prepare_store,
)


def test_artifacts_are_files_of_the_home_for_every_experiment(home: Home, store: Store) -> None:
    location = artifact_location(home)
    assert location.startswith("file:///")
    for name, place in (("fine-tune", location), ("Default", f"{location}/0")):
        assert store.client.get_experiment_by_name(name).artifact_location == place


def test_a_second_start_costs_next_to_nothing(
    home: Home, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the database was made or changed again")

    monkeypatch.setattr(database, "_bring_up_to", refuse)
    started = time.perf_counter()
    prepare_store(home, settings)
    assert time.perf_counter() - started < 1


def test_what_was_stored_is_found_after_the_home_moved(
    home: Home, settings: Settings, store: Store, tmp_path: Path
) -> None:
    run_id = store.client.create_run(store.experiment_id).info.run_id
    store.client.log_text(run_id, "hello", "note.txt")
    moved = Home(tmp_path / "new place ü 100%")
    shutil.move(home.root, moved.root)
    client = open_store(moved, settings).client
    assert client.get_run(run_id).info.artifact_uri.startswith(moved.root.as_uri())
    found = Path(client.download_artifacts(run_id, "note.txt"))
    assert found.read_text(encoding="utf-8") == "hello"


def test_an_old_database_is_upgraded_and_kept(
    home: Home, settings: Settings, prepared: Path
) -> None:
    from alembic import command
    from mlflow.store.db.utils import _get_alembic_config

    home.mlflow.mkdir(parents=True)
    path = home.mlflow / "mlflow.db"
    shutil.copy(prepared / "mlflow" / "mlflow.db", path)
    # As an older MLflow left it: one revision back, with a run in it.
    with closing(sqlite3.connect(path)) as connection:
        head = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
    try:
        command.downgrade(_get_alembic_config(f"sqlite:///{path}"), "-1")
    except NotImplementedError:
        pytest.skip("this MLflow's last migration has no way back")
    store = open_store(home, settings)
    assert store.client.get_experiment_by_name("fine-tune") is not None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone()[0] == head
    assert len(list(home.mlflow.glob("mlflow.before-upgrade-*.db"))) == 1


def test_a_newer_database_is_left_alone(home: Home, settings: Settings, store: Store) -> None:
    with closing(sqlite3.connect(home.mlflow / "mlflow.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'fedcba987654'")
    with pytest.raises(InputError, match=r"made by a newer MLflow \(schema fedcba987654\)"):
        prepare_store(home, settings)


@pytest.mark.parametrize("content", [b"not a database" * 99, b"SQLite format 3\0" + b"\0" * 9])
def test_a_file_that_is_no_database_is_named(
    home: Home, settings: Settings, content: bytes
) -> None:
    home.mlflow.mkdir(parents=True)
    (home.mlflow / "mlflow.db").write_bytes(content)
    with pytest.raises(InputError, match=r"mlflow\.db'?: is no MLflow database"):
        prepare_store(home, settings)
    assert (home.mlflow / "mlflow.db").read_bytes() == content


def test_what_a_kill_left_of_the_first_start_does_not_matter(
    home: Home, settings: Settings, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(path: Path, _location: str) -> None:
        assert not path.exists()
        shutil.copy(prepared / "mlflow" / "mlflow.db", path)

    monkeypatch.setattr(database, "_make_store", make)
    home.mlflow.mkdir(parents=True)
    (home.mlflow / ".new.mlflow.db").write_bytes(b"half a database")
    (home.mlflow / "mlflow.db").touch()
    assert open_store(home, settings).experiment_id == "1"


def test_what_a_kill_left_half_written_is_rolled_back(
    home: Home, settings: Settings, store: Store
) -> None:
    path = home.mlflow / "mlflow.db"
    write = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('PRAGMA cache_size = 1'); c.execute('CREATE TABLE half (t)'); "
        "c.executemany('INSERT INTO half VALUES (?)', [('x' * 3000,)] * 300); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", write, str(path)]).returncode == 9
    assert path.with_name("mlflow.db-journal").is_file()
    assert open_store(home, settings).experiment_id == "1"


@pytest.mark.parametrize("address", ["./mlruns", "file:///tmp/mlruns", "mlruns", "ftp://host"])
def test_addresses_that_newer_versions_refuse_are_refused_here(home: Home, address: str) -> None:
    with pytest.raises(InputError, match="neither a server nor a database"):
        prepare_store(home, Settings(tracking_uri=address))
    assert not home.mlflow.exists()


def test_a_server_that_is_down_is_said_at_once(home: Home) -> None:
    with pytest.raises(TwoleversError, match=r"http://127\.0\.0\.1:9 does not answer"):
        open_store(home, Settings(tracking_uri="http://127.0.0.1:9"))


def test_an_experiment_made_through_a_server_is_refused(
    home: Home, store: Store, settings: Settings
) -> None:
    store.client.create_experiment("team", artifact_location="mlflow-artifacts:/7")
    with pytest.raises(InputError, match="made through a server"):
        open_store(home, Settings(experiment="team"))


def test_files_of_another_machine_are_refused_before_a_run_writes_there(
    store: Store, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "of another machine" / "artifacts"
    store.client.create_experiment("elsewhere", artifact_location=elsewhere.as_uri())
    told = rf"keeps its artifacts in the folder {elsewhere}.*--artifacts-destination"
    with pytest.raises(InputError, match=told):
        find_experiment(store.client, "elsewhere", None)
    elsewhere.parent.mkdir()
    assert find_experiment(store.client, "elsewhere", None)


def test_a_link_tells_no_password(store: Store) -> None:
    of_a_server = replace(store, uri="https://me:secret@mlflow.team:5000/")
    assert (
        of_a_server.run_page("7")
        == "https://mlflow.team:5000/#/experiments/1/runs/7?workflowType=machine_learning"
    )


def test_a_deleted_experiment_is_restored(home: Home, store: Store, settings: Settings) -> None:
    store.client.delete_experiment(store.experiment_id)
    again = open_store(home, settings)
    assert again.client.get_experiment(again.experiment_id).lifecycle_stage == "active"


def test_importing_the_core_side_does_not_load_mlflow() -> None:
    code = "import sys, twolevers.tracking.protocol; assert 'mlflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
