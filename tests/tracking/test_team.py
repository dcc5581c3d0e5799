"""What a team's machines see of each other's runs in one store."""

import pytest

from twolevers.errors import InputError
from twolevers.settings import Home, Settings
from twolevers.tracking import names
from twolevers.tracking.mlflow_tracker import open_run
from twolevers.tracking.rerun import find_original
from twolevers.tracking.store import Store


def test_the_latest_to_rerun_is_of_this_machine(
    home: Home, settings: Settings, store: Store
) -> None:
    elsewhere = {names.HOST: "another-machine"}
    with open_run(home=home, settings=settings, name="theirs", tags=elsewhere):
        pass
    with pytest.raises(InputError, match="no run of this machine has finished yet"):
        find_original("latest")
    with open_run(home=home, settings=settings, name="ours") as ours:
        pass
    with open_run(home=home, settings=settings, name="theirs again", tags=elsewhere):
        pass
    # It has kept nothing to repeat it by, and so it is named.
    with pytest.raises(InputError, match=ours.run_id):
        find_original("latest")
