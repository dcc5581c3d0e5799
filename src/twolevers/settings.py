"""Where things lie and what the two levers stand at when nobody says.

`settings.toml` in the home folder (on a clone: the clone) holds the one line that chapter 7
changes, `CHOOSE_MODEL`. The environment wins over the file (`TWOLEVERS_CHOOSE_MODEL`), the
command line over both.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from twolevers.errors import InputError, Problem

SETTINGS_FILE = "settings.toml"
FETCHED_CLONE = "twolevers-fetched"
"""Name of the clone that a worker makes for one run and removes after it: no home for results."""


def find_home() -> Path:
    """`TWOLEVERS_HOME`; without it the clone that this code runs from, else `~/.twolevers`."""
    chosen = os.environ.get("TWOLEVERS_HOME")
    if chosen:
        return Path(chosen).expanduser().resolve()
    clone = Path(__file__).resolve().parents[2]
    is_clone = (clone / SETTINGS_FILE).is_file() and (clone / "flows").is_dir()
    if is_clone and clone.name != FETCHED_CLONE:
        return clone
    return Path.home() / ".twolevers"


class Settings(BaseSettings):
    """The levers' defaults and the addresses. Read anew for every run."""

    model_config = SettingsConfigDict(
        env_prefix="TWOLEVERS_", extra="forbid", frozen=True, env_ignore_empty=True
    )

    choose_model: str = Field("gpt2-nano", description="the model lever")
    choose_device: str = Field("auto", description="the device lever")
    tracking_uri: str | None = Field(
        None, description="address of an MLflow server; empty: the store in the home folder"
    )
    experiment: str = Field("fine-tune", description="MLflow experiment that runs go to")
    notify: str | None = Field(
        None,
        pattern="^[^/]+/[^/]+$",
        description="notification block of Prefect's that is told of failures and worse losses: "
        "its type and name, slack-webhook/team; empty: nobody is told",
    )
    worse_by: float = Field(
        0.05,
        ge=0,
        description="share of the last run's validation loss by which a loss counts as worse",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _LowerCaseToml(settings_cls)


class _LowerCaseToml(TomlConfigSettingsSource):
    """`CHOOSE_MODEL` in the file is `choose_model` here: the chapter's spelling is kept."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, find_home() / SETTINGS_FILE)

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        return {key.lower(): value for key, value in super()._read_file(file_path).items()}


def load_settings() -> Settings:
    """The settings as they stand now.

    Raises:
        InputError: the file is no TOML, or holds a line nobody knows.
    """
    file = find_home() / SETTINGS_FILE
    try:
        return Settings()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            Problem(str(file), None, f"is no TOML in UTF-8 ({error})", "correct the line")
        ) from error
    except ValidationError as error:
        raise InputError(
            [
                Problem(
                    f"{file}: {'.'.join(str(part) for part in fault['loc']).upper()}",
                    fault["input"],
                    fault["msg"].lower(),
                    "known: " + ", ".join(name.upper() for name in Settings.model_fields),
                )
                for fault in error.errors()
            ]
        ) from error


class Home:
    """The folders of the home; made when first used."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or find_home()

    @property
    def cache(self) -> Path:
        """Fetched and tokenised files, by content hash; safe to delete."""
        return self.root / ".cache"

    @property
    def runs(self) -> Path:
        """One folder a run: resolved options, ledger, checkpoints, responses, summary."""
        return self.root / "runs"

    @property
    def judgements(self) -> Path:
        """What judges said, by judge and question; of all runs together."""
        return self.root / "judgements"

    @property
    def prefect(self) -> Path:
        """Prefect's own home: profiles, database, results."""
        return self.root / ".prefect"

    @property
    def mlflow(self) -> Path:
        """MLflow's database and artifacts."""
        return self.root / "mlflow"

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.mlflow / 'mlflow.db'}"

    def run_folder(self, run_id: str) -> Path:
        return self.runs / run_id
