"""Which web interfaces are known to be there, so that none has to be started to look at a run."""

import pytest

from flows.addresses import web_addresses
from flows.launch import open_ui
from twolevers.settings import Home


def test_set_addresses_are_told_without_their_password(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PREFECT_API_URL", "TWOLEVERS_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    assert web_addresses() == {}
    monkeypatch.setenv("PREFECT_API_URL", "http://server.team:4200/api/")
    monkeypatch.setenv("TWOLEVERS_TRACKING_URI", "http://me:secret@server.team:5000")
    assert web_addresses() == {
        "prefect": "http://server.team:4200",
        "mlflow": "http://server.team:5000",
    }
    open_ui("mlflow", None)
    assert capsys.readouterr().out == "MLflow runs already: http://server.team:5000\n"


def test_a_database_has_no_page(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOLEVERS_TRACKING_URI", "postgresql://me@server.team/mlflow")
    assert "mlflow" not in web_addresses()
