"""A run once more, exactly: what it was made of, what is different today, how far apart it ends.

A run's folder holds its resolved options, the hashes of its inputs and the data as it was read,
so that a rerun needs the run and nothing else: not the file that the data came from.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

from twolevers.errors import InputError, Problem
from twolevers.files import read_json
from twolevers.options import FineTuneOptions
from twolevers.records import (
    DatasetFile,
    FineTuneRun,
    Record,
    RunSummary,
    TokenisedData,
    WeightsFolder,
)
from twolevers.settings import Home, load_settings
from twolevers.tracking import names
from twolevers.tracking.kinds import check_kind
from twolevers.tracking.queries import (
    LATEST,
    find_flow_run,
    find_run,
    finished_runs,
    read_summary,
)
from twolevers.tracking.run_info import RunInfo
from twolevers.tracking.runs import kept_inputs, read_run_options
from twolevers.training.checkpoint import FINISHED, FOLDER
from twolevers.versions import environment_tags

LOSSES = ("train_loss_before", "val_loss_before", "train_loss_after", "val_loss_after")


class Original(Record):
    """The run that is repeated, and what it was made of."""

    run_id: str
    name: str
    options: FineTuneOptions
    """Resolved, as the run had them."""
    dataset: DatasetFile
    weights: WeightsFolder
    data: TokenisedData
    """The data as read, in the run's own folder."""
    tags: dict[str, str]


class Comparison(Record):
    """A rerun beside the run that it repeats."""

    original_run_id: str
    run_id: str
    identical: bool | None
    """The trained weights are the same to the bit; None where the original's are not known."""
    losses: dict[str, tuple[float | None, float | None]]
    """By name: the original's and the rerun's, in nats per supervised token."""
    differences: tuple[str, ...]
    """What is different today: code, libraries, device."""

    def __str__(self) -> str:
        """A few lines for people."""
        lines = [f"rerun of {self.original_run_id}: {self._verdict()}"]
        for name, (before, now) in self.losses.items():
            if before is not None and now is not None:
                label, apart = name.replace("_", " "), _apart(before, now)
                lines.append(f"{label}: {before:.6f}, then {now:.6f} ({apart})")
        lines += [f"different today: {difference}" for difference in self.differences]
        return "\n".join(lines)

    @property
    def markdown(self) -> str:
        """The same as a page."""
        lines = [f"Rerun of `{self.original_run_id}`: **{self._verdict()}**.", ""]
        lines += ["| loss (nats per token) | then | now | apart |", "| --- | --- | --- | --- |"]
        for name, (before, now) in self.losses.items():
            if before is not None and now is not None:
                label, apart = name.replace("_", " "), _apart(before, now)
                lines.append(f"| {label} | {before:.6f} | {now:.6f} | {apart} |")
        different = [f"- {difference}" for difference in self.differences] or ["- nothing"]
        return "\n".join([*lines, "", "Different today:", "", *different])

    def _verdict(self) -> str:
        if self.identical is None:
            return "its weights are no longer there to compare"
        return "identical, to the bit" if self.identical else "not identical"


def _apart(before: float, now: float) -> str:
    return "the same" if before == now else f"{(now - before) / before:+.3%}"


def find_original(run: str, flow_run_id: str | None = None) -> Original:
    """What `run` was made of.

    Args:
        run: as everywhere; `latest` is the newest that finished, of this machine's in a team.
        flow_run_id: a retry of this flow run repeats what its first attempt did, whatever
            finished since.

    Raises:
        InputError: no such run, or what it was made of is not on this machine.
    """
    home, settings = Home(), load_settings()
    begun = find_flow_run(flow_run_id, home, settings) if flow_run_id else None
    if begun and (of := find_run(begun, home, settings).tags.get(names.RERUN_OF)):
        run = of
    if run.strip().lower() == LATEST:
        found = next(filter(_can_be_here, finished_runs(home, settings)), None)
        if found is None:
            raise InputError(
                Problem(
                    "run",
                    run,
                    "no run of this machine has finished yet",
                    "start one: twolevers fine-tune",
                )
            )
    else:
        found = find_run(run, home, settings)
    return _read(found, run, home)


def _can_be_here(run: RunInfo) -> bool:
    """Whether its data may be on this machine: a team's others keep that of their runs."""
    elsewhere = run.tags.get(names.HOST, platform.node()) != platform.node()
    return not elsewhere or bool(run.folder and run.folder.is_dir())


def _read(found: RunInfo, asked: str, home: Home) -> Original:
    if found.run_id is None:
        raise InputError(Problem("run", asked, "is no run's folder", "see `twolevers runs`"))
    check_kind(found, asked, names.FINE_TUNE)
    folder = home.run_folder(found.run_id)
    options, inputs = read_run_options(folder), kept_inputs(folder)
    if inputs is None:
        raise InputError(
            Problem(
                "run",
                asked,
                "it ended before its data was read",
                "choose a run that got as far as training: twolevers runs",
            )
        )
    return Original(
        run_id=found.run_id,
        name=found.name,
        options=options,
        dataset=inputs.dataset,
        weights=inputs.weights,
        data=inputs.data,
        tags=found.tags,
    )


def check_weights(original: Original, weights: WeightsFolder) -> WeightsFolder:
    """The base weights, if they are those that the run started from.

    Raises:
        InputError: they are others.
    """
    if weights.sha256 != original.weights.sha256:
        raise InputError(
            Problem(
                "weights",
                str(weights.path),
                f"have the hash {weights.sha256[:12]}…, the run {original.run_id} started from "
                f"{original.weights.sha256[:12]}…",
                "put the weights of then back, or start a new run",
            )
        )
    return weights


def compare(original: Original, run: FineTuneRun, summary: RunSummary) -> Comparison:
    """The rerun beside the original."""
    home, settings = Home(), load_settings()
    before = read_summary(find_run(original.run_id, home, settings))
    now = summary.model_dump(mode="json")
    hashes = [_weights_hash(home.run_folder(i)) for i in (original.run_id, run.run_id)]
    scored = {
        f"{role}_{loss}": ((before.get(role) or {}).get(loss), (now.get(role) or {}).get(loss))
        for role in names.ROLES
        for loss in ("val_loss", "test_loss")
    }
    return Comparison(
        original_run_id=original.run_id,
        run_id=run.run_id,
        identical=hashes[0] == hashes[1] if all(hashes) else None,
        losses={name: (before.get(name), now.get(name)) for name in LOSSES} | scored,
        differences=tuple(_differences(original.tags, _tags_today(run))),
    )


def _weights_hash(folder: Path) -> str | None:
    """Of the weights that training ended with; known even where they are no longer kept."""
    try:
        return str(read_json(folder / FOLDER / FINISHED)["result"]["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tags_today(run: FineTuneRun) -> dict[str, str]:
    return environment_tags() | {
        "device": run.options.device,
        names.HARDWARE: run.hardware,
        names.THREADS: str(run.threads),
    }


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """One line each. Changes to tracked files since the commit count: code is what they make it."""
    labels = {
        names.HARDWARE: "device",
        names.THREADS: "threads",
        "git.commit": "commit",
        "platform": "platform",
    }
    for key in sorted({*before, *now}):
        label = labels.get(key) or (key.removeprefix("version.") if "version." in key else None)
        then, today = before.get(key, "unknown"), now.get(key, "unknown")
        if label and then != today:
            yield f"{label} {_short(then)}, now {_short(today)}"
    if "true" in (before.get("git.dirty"), now.get("git.dirty")):
        yield "files that differ from the commit, then or now"


def _short(value: str) -> str:
    """A commit's first characters; anything else whole."""
    is_commit = len(value) == 40 and all(sign in "0123456789abcdef" for sign in value)
    return value[:10] if is_commit else value
