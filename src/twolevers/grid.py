"""A grid of models and devices to be timed: its cells, and what each of them still lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from twolevers import __version__
from twolevers.errors import InputError, Problem
from twolevers.fingerprint import workload_fingerprint
from twolevers.models.catalog import find_model
from twolevers.options import DEVICES, FROM_SETTINGS, FineTuneOptions, Precision
from twolevers.plan import Plan, make_plan
from twolevers.records import DatasetFile, Record
from twolevers.run_times import Column, RunTimes, run_times
from twolevers.settings import Home, load_settings
from twolevers.tracking.timings import list_timings

TIMED_EPOCHS = 2


class GridCell(Record):
    """One model on one device."""

    model: str
    """Full name."""
    device: str
    """Resolved; as it was asked for where this machine lacks it."""
    precision: str
    """Resolved; as it was asked for where there is no such device."""
    weights: str | None
    hardware: str = ""
    threads: int | None = None
    missing: int = 0
    """Runs that are still to be timed."""
    problem: str | None = None
    """Why it cannot be timed here."""

    @property
    def name(self) -> str:
        return f"{self.model} on {self.device} in {self.precision}"

    @property
    def column(self) -> Column | None:
        """None where the device is not of this machine: nobody knows its hardware."""
        if self.problem:
            return None
        return Column.of(self.device, self.hardware, self.threads, self.precision)

    def parameters(self, asked: FineTuneOptions) -> dict[str, Any]:
        """Those of a fine-tune run of the cell.

        Args:
            asked: what all cells have in common.
        """
        shared = {name: getattr(asked, name) for name in FineTuneOptions.model_fields}
        own = {name: getattr(self, name) for name in ("model", "device", "precision", "weights")}
        return shared | own


class Grid(Record):
    """All cells that were asked for, the smaller models first."""

    fingerprint: str
    cells: tuple[GridCell, ...]
    not_measured: tuple[str, ...] = ()
    """A line each for what could not be timed, and why."""

    def with_failures(self, failures: Mapping[str, str]) -> Grid:
        """The grid after its runs: `failures` says by the cell's name what went wrong."""
        problems = {cell.name: cell.problem for cell in self.cells if cell.problem} | dict(failures)
        lines = tuple(f"{name}: {problem}" for name, problem in problems.items())
        return self.model_copy(update={"not_measured": lines})


def plan_grid(
    asked: FineTuneOptions,
    dataset: DatasetFile,
    *,
    models: Sequence[str],
    devices: Sequence[str],
    precisions: Sequence[Precision],
    weights: Mapping[str, str],
    runs_per_cell: int = 1,
    again: bool = False,
) -> Grid:
    """The cells of models × devices × precisions, and how many runs each still lacks.

    A run counts that was timed on the same workload, on this machine, by this version of the
    code. Two names of one device (`auto`, `cpu`) make one cell.

    Args:
        asked: what all cells have in common.
        weights: local base weights by model, instead of the catalog's.
        again: time every cell, measured or not.

    Raises:
        InputError: a name that means nothing, or other than two epochs.
    """
    settings = load_settings()
    names = [settings.choose_model if model == FROM_SETTINGS else model for model in models]
    devices = [settings.choose_device if one == FROM_SETTINGS else one for one in devices]
    full_names, folders = _check_names(asked, names, devices, precisions, weights)
    fingerprint = workload_fingerprint(asked, dataset.sha256)
    measured = run_times(list_timings(Home(), settings), fingerprint)

    def cell(model: str, device: str, precision: Precision) -> GridCell:
        levers = {"model": model, "device": device, "precision": precision}
        given = {**levers, "weights": folders.get(model)}
        try:
            plan = make_plan(asked.model_copy(update=given), settings, data_is_kept=True)
        except InputError as error:
            return GridCell(**given, problem=" ".join(str(error).split()))
        return _planned(plan, measured, runs_per_cell, again)

    ordered = sorted(full_names, key=lambda name: find_model(name).config.num_parameters)
    cells = (cell(*levers) for levers in product(ordered, devices, precisions))
    return Grid(fingerprint=fingerprint, cells=tuple({one.name: one for one in cells}.values()))


def _planned(plan: Plan, measured: RunTimes, runs_per_cell: int, again: bool) -> GridCell:
    options, device = plan.options, plan.device
    column = Column.of(device.name, device.hardware, device.threads, options.precision)
    there = None if again else measured.cells.get((plan.model.name, column))
    timed = len(there.run_ids) if there and there.core_version == __version__ else 0
    return GridCell(
        model=plan.model.name,
        device=device.name,
        precision=options.precision,
        weights=options.weights,
        hardware=device.hardware,
        threads=device.threads,
        missing=max(runs_per_cell - timed, 0),
    )


def _check_names(
    asked: FineTuneOptions,
    models: Sequence[str],
    devices: Sequence[str],
    precisions: Sequence[str],
    weights: Mapping[str, str],
) -> tuple[list[str], dict[str, str]]:
    """Full names of the models, and the weights by them.

    Raises:
        InputError: every problem at once.
    """

    def problems() -> Iterator[Problem]:
        if asked.training.epochs != TIMED_EPOCHS:
            yield Problem(
                "--epochs",
                asked.training.epochs,
                "the run-time table times two epochs, as the chapter does",
                "leave it at 2",
            )
        asked_for = {"models": models, "devices": devices, "precisions": precisions}
        for what, given in asked_for.items():
            if not given:
                yield Problem(what, None, "none is given", "choose at least one")
        for device in devices:
            if device not in DEVICES:
                yield Problem(
                    "devices", device, "no such device", f"choose from {', '.join(DEVICES)}"
                )
        for model in [*models, *weights]:
            try:
                find_model(model)
            except InputError as error:
                yield from error.problems

    if found := list(dict.fromkeys(problems())):
        raise InputError(found)
    full_names = list(dict.fromkeys(find_model(model).name for model in models))
    return full_names, {find_model(model).name: path for model, path in weights.items()}


def grid_table(grid: Grid) -> RunTimes:
    """The run-time table of the grid's workload as it stands now, all of its cells in it."""
    return run_times(
        list_timings(Home(), load_settings()),
        grid.fingerprint,
        models=[cell.model for cell in grid.cells],
        columns=[column for cell in grid.cells if (column := cell.column)],
    )
