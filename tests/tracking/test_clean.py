from collections.abc import Callable
from pathlib import Path

import pytest

from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.clean import clean, plan_clean
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.store import Store
from twolevers.tracking.traces import ScoredAnswer, answers_of, computed

MakeRun = Callable[..., str]


@pytest.fixture
def make_run(
    home: Home, settings: Settings, store: Store, make_checkpoint: Callable[..., Path]
) -> MakeRun:
    def make(name: str, kind: str = names.FINE_TUNE) -> str:
        with open_run(home=home, settings=settings, name=name, kind=kind) as tracker:
            path = make_checkpoint(tracker.folder, "epoch-1", b"w" * 10_000)
            tracker.log_checkpoint(path, step=1, metrics={})
            tracker.log_metrics({"train/loss": 1.0}, step=1)
        return tracker.run_id

    return make


def test_old_runs_go_whole_and_the_newest_stay(
    home: Home, settings: Settings, store: Store, make_run: MakeRun
) -> None:
    old, new = make_run("old"), make_run("new")
    plan = plan_clean(home, settings, older_than_days=None, keep_last=1)
    assert [(item.kind, item.run_id) for item in plan.items] == [("run", old)]
    # Weights that two links share are counted once.
    assert 10_000 <= plan.bytes < 20_000
    assert store.client.get_run(old)  # nothing happened yet

    assert clean(plan) == plan.bytes
    assert not home.run_folder(old).exists()
    assert not (home.mlflow / "artifacts" / old).exists()
    with pytest.raises(Exception, match="not found"):
        store.client.get_run(old)
    assert store.client.get_run(new).info.status == "FINISHED"
    assert (home.run_folder(new) / "checkpoints" / "epoch-1" / "model.safetensors").is_file()
    assert plan_clean(home, settings, older_than_days=None, keep_last=1).items == ()


def test_young_runs_stay(home: Home, settings: Settings, make_run: MakeRun) -> None:
    make_run("young")
    assert plan_clean(home, settings, older_than_days=1, keep_last=0).items == ()


def test_a_run_that_an_alias_holds_stays(
    home: Home, settings: Settings, store: Store, make_run: MakeRun
) -> None:
    best, other = make_run("best"), make_run("other")
    store.client.create_registered_model("twolevers-gpt2-nano")
    for run_id in (best, other):
        source = str(home.mlflow / "artifacts" / run_id / "artifacts" / "checkpoints")
        store.client.create_model_version("twolevers-gpt2-nano", source, run_id=run_id)
    store.client.set_registered_model_alias("twolevers-gpt2-nano", "best", "1")
    plan = plan_clean(home, settings, older_than_days=None, keep_last=0)
    assert [item.run_id for item in plan.items] == [other]
    # The alias moves between showing and removing.
    store.client.set_registered_model_alias("twolevers-gpt2-nano", "best", "2")
    assert clean(plan) == 0
    store.client.set_registered_model_alias("twolevers-gpt2-nano", "best", "1")
    clean(plan)
    assert home.run_folder(best).exists()
    assert not home.run_folder(other).exists()
    versions = store.client.search_model_versions("name = 'twolevers-gpt2-nano'")
    assert [version.version for version in versions] in (["1"], [1])


def test_a_run_being_worked_on_stays_and_caches_with_it(
    home: Home, settings: Settings, store: Store
) -> None:
    (home.cache / "data").mkdir(parents=True)
    (home.cache / "data" / "abc.json").write_text("[]", encoding="utf-8")
    with open_run(home=home, settings=settings, name="working"):
        assert plan_clean(home, settings, older_than_days=None, keep_last=0).items == ()
    kinds = [i.kind for i in plan_clean(home, settings, older_than_days=None, keep_last=0).items]
    assert kinds == ["run", "cache"]


def test_the_newest_of_each_kind_stay(home: Home, settings: Settings, make_run: MakeRun) -> None:
    """Evaluations come by the dozen: the fine-tunings that they are of are not older news."""
    old, _ = make_run("old"), make_run("tuned")
    gone = {old, make_run("old", names.CLASSIFY), make_run("old", names.EVALUATION)}
    kept = {make_run("new", kind) for kind in (names.CLASSIFY, names.EVALUATION)}
    plan = plan_clean(home, settings, older_than_days=None, keep_last=1)
    assert {item.run_id for item in plan.items} == gone
    clean(plan)
    assert not any(home.run_folder(run_id).exists() for run_id in gone)
    assert all(home.run_folder(run_id).is_dir() for run_id in kept)


def test_answers_go_with_the_run_that_they_are_of(
    home: Home, settings: Settings, store: Store
) -> None:
    """In MLflow they stand in a run of their own, as traces."""
    answers = [ScoredAnswer("Name it.", "", "Rome", "Paris", computed("Paris", "Rome"))]
    for name in ("old", "new"):
        with open_run(home=home, settings=settings, name=name) as tracker:
            tracker.log_answers("tuned", answers)
    [kept] = answers_of(store.client, store.experiment_id, tracker.run_id)
    plan = plan_clean(home, settings, older_than_days=None, keep_last=1)
    assert [item.run_id for item in plan.items] != []
    assert not {kept.info.run_id, tracker.run_id} & {item.run_id for item in plan.items}
    clean(plan)
    left = store.client.search_runs([store.experiment_id])
    assert {run.info.run_id for run in left} == {kept.info.run_id, tracker.run_id}
    [trace] = store.client.search_traces(locations=[store.experiment_id])
    assert trace.info.request_metadata["mlflow.sourceRun"] == kept.info.run_id


def test_what_a_working_run_reads_from_stays(
    home: Home, settings: Settings, make_run: MakeRun
) -> None:
    evaluated, repeated, based_on, other = (make_run(name) for name in "abcd")
    weights = str(home.run_folder(based_on) / "checkpoints" / "epoch-1")
    before = plan_clean(home, settings, older_than_days=None, keep_last=0)
    assert {item.run_id for item in before.items} == {evaluated, repeated, based_on, other}
    for tags, params, read in (
        ({names.EVALUATION_OF: evaluated}, {}, evaluated),
        ({names.RERUN_OF: repeated}, {}, repeated),
        ({}, {"weights": weights}, based_on),
    ):
        with open_run(home=home, settings=settings, name="w", tags=tags, params=params) as working:
            assert working.writer.flush(30)
            plan = plan_clean(home, settings, older_than_days=None, keep_last=0)
            going = {item.run_id for item in plan.items}
            assert not {read, working.run_id} & going
            assert other in going
    # It began between showing and removing.
    with open_run(home=home, settings=settings, name="w", tags={names.RERUN_OF: repeated}):
        clean(before)
    left = [home.run_folder(run_id).exists() for run_id in (evaluated, repeated, based_on, other)]
    assert left == [False, True, False, False]


def test_runs_deleted_in_the_ui_and_remains_without_a_run_go(
    home: Home, settings: Settings, store: Store, make_run: MakeRun
) -> None:
    deleted = make_run("deleted")
    store.client.delete_run(deleted)
    remains = home.run_folder("ab" * 16)
    remains.mkdir(parents=True)
    (home.runs / "my notes").mkdir()
    plan = plan_clean(home, settings, older_than_days=None, keep_last=5)
    assert {(item.kind, item.path.name) for item in plan.items} == {
        ("run", deleted),
        ("folder", "ab" * 16),
    }
    clean(plan)
    assert sorted(path.name for path in home.runs.iterdir()) == [".open", "my notes"]


def test_links_are_not_followed_out_of_the_home(
    home: Home, settings: Settings, store: Store, make_run: MakeRun, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("…", encoding="utf-8")
    run_id = make_run("run")
    (home.run_folder(run_id) / "link").symlink_to(precious)
    home.run_folder("cd" * 16).symlink_to(precious)
    home.cache.symlink_to(precious)
    said: list[str] = []
    clean(plan_clean(home, settings, older_than_days=None, keep_last=0), said.append)
    assert (precious / "thesis.tex").is_file()
    assert not home.run_folder(run_id).exists()
    assert not home.run_folder("cd" * 16).is_symlink()
