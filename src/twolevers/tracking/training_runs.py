"""Runs that train: opened, and continued, whatever is trained.

A run that was stopped or killed goes on with the options that its folder keeps; those that do not
move the weights of a step may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from twolevers.device import Device
from twolevers.errors import InputError, Problem
from twolevers.files import read_json
from twolevers.options import TaskOptions
from twolevers.plan import changed_options, flat_options, resume_options
from twolevers.records import OpenRun
from twolevers.settings import Home, load_settings
from twolevers.tracking.inputs import INPUTS_FILE
from twolevers.tracking.kinds import check_kind, resume_command
from twolevers.tracking.queries import find_flow_run, find_run
from twolevers.tracking.run_tracker import Warn
from twolevers.tracking.tracked_run import device_tags, tracked_run


class Planned(Protocol):
    """Resolved options, and what they name: `plan.Plan` and its like."""

    @property
    def options(self) -> TaskOptions: ...
    @property
    def device(self) -> Device: ...
    @property
    def run_name(self) -> str: ...


Options = TypeVar("Options", bound=TaskOptions)
Plan = TypeVar("Plan", bound=Planned)
Run = TypeVar("Run", bound=OpenRun)


@dataclass(frozen=True)
class TrainingRuns(Generic[Options, Plan, Run]):
    """The runs of one kind."""

    kind: str
    """One of `names`."""
    record: Callable[..., Run]
    """Of a run that is open."""
    options: type[Options]
    file_name: str
    """Of the resolved options in a run's folder."""
    make_plan: Callable[..., Plan]
    """From options and settings; `data_is_kept`: the data is not looked for."""

    @contextmanager
    def opened(
        self,
        asked: Options,
        *,
        flow_run_id: str | None,
        resume_from: str | None = None,
        tags: Mapping[str, str] | None = None,
        data_is_kept: bool = False,
        warn: Warn | None = None,
    ) -> Iterator[Run]:
        """Open a run, or reopen one: that named by `resume_from`, or the one that an earlier
        attempt of the same flow run began.

        Args:
            tags: besides those of device and flow run.
            data_is_kept: the file that the data came from need not be there any more.
            warn: told in one line what MLflow did not take, from any thread.

        Nothing is opened before every option has been checked. Ctrl-C or SIGTERM anywhere in the
        block becomes RunStopped with the command that continues the run.

        Raises:
            InputError: options that cannot be used; a run to resume that is unknown or finished.
        """
        # A retry of the same flow run reopens the run that its first attempt worked on, as it is.
        run_id = find_flow_run(flow_run_id, Home(), load_settings()) if flow_run_id else None
        if run_id:
            asked = self.options.model_validate({})
        elif resume_from:
            run_id = self.to_continue(resume_from)
        plan = self.plan(asked, run_id, data_is_kept=data_is_kept)
        with tracked_run(
            self.kind,
            plan.run_name,
            asked=plan.options,
            file_name=self.file_name,
            params=flat_options(plan.options),
            tags={**device_tags(plan.device), **(tags or {})},
            flow_run_id=flow_run_id,
            reopen=run_id,
            warn=warn,
        ) as (opened_id, folder):
            yield self.record(
                run_id=opened_id,
                flow_run_id=flow_run_id,
                resumed=resume_from is not None,
                folder=folder,
                options=plan.options,
                hardware=plan.device.hardware,
                threads=plan.device.threads,
            )

    def plan(
        self, asked: Options, run_id: str | None = None, *, data_is_kept: bool = False
    ) -> Plan:
        """What will run: `asked`, or the options of the run to continue, changed where asked.

        Args:
            data_is_kept: the file that the data came from need not be there any more.

        Raises:
            InputError: every option that cannot be used.
        """
        settings = load_settings()
        if run_id:
            asked = resume_options(self.read_options(Home().run_folder(run_id)), asked, settings)
            data_is_kept = data_is_kept or _keeps_data(run_id)
        return self.make_plan(asked, settings, data_is_kept=data_is_kept)

    def plan_of_command(self, given: Options, resume: str | None) -> tuple[Plan, str | None]:
        """What a user starts who asks for exactly what is set in `given`, defaults included; and
        the id of the run that goes on, where one is to be resumed.

        Raises:
            InputError: every option that cannot be used or would make it another run.
        """
        if resume is None:
            return self.plan(given), None
        # From here on the run's own id: `latest` may change meanwhile.
        run_id, settings = self.to_continue(resume), load_settings()
        changes: dict[str, object] = {}
        for name, value in given.model_dump(exclude_unset=True).items():
            changes.update(value if isinstance(value, dict) else {name: value})
        stored = self.read_options(Home().run_folder(run_id))
        changed = changed_options(stored, changes, settings)
        return self.make_plan(changed, settings, data_is_kept=_keeps_data(run_id)), run_id

    def to_continue(self, resume_from: str) -> str:
        """MLflow's id of the run that `resume_from` names.

        Raises:
            InputError: no such run, or one that has finished.
        """
        found = find_run(resume_from, Home(), load_settings(), kind=self.kind)
        other = resume_command(found.kind, str(found.run_id)[:8])
        instead = f"go on with it: {other}" if other and found.status != "FINISHED" else None
        check_kind(found, resume_from, self.kind, where="resume", instead=instead)
        if found.run_id is None:
            what, way_out = "is no run's checkpoint", "see `twolevers runs`"
        elif found.status == "FINISHED":
            what = "this run has finished, there is nothing to continue"
            way_out = f"start a new one: twolevers {self.kind}"
            if found.checkpoint:
                way_out = f"to train its model further: twolevers {self.kind} --weights "
                way_out += f'"{found.checkpoint}"'
        else:
            return found.run_id
        raise InputError(Problem("resume", resume_from, what, way_out))

    def read_options(self, folder: Path) -> Options:
        """The resolved options stored in a run's folder.

        Raises:
            InputError: the folder is not on this machine.
        """
        file = folder / self.file_name
        if not file.is_file():
            what = "its folder is not on this machine"
            way_out = f"set TWOLEVERS_HOME to the home that holds {self.file_name} of this run"
            raise InputError(Problem("run", folder.name, what, way_out))
        return self.options.model_validate(read_json(file))


def _keeps_data(run_id: str) -> bool:
    return (Home().run_folder(run_id) / INPUTS_FILE).is_file()
