"""automations.yaml and the server that holds it, changed by the user meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.blocks.system import Secret
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import automations
from flows.automations import AUTOMATIONS_FILE, apply_automations
from twolevers.settings import Home

PREFIX = "twolevers: "
ALWAYS = {"no heartbeat", "never began", "alive after all", "missed its start"}
TOLD = {"tell of failures", "tell of a worse loss"}


@pytest.fixture
def api(server: str, home: Home) -> Iterator[str]:
    """The server, which Prefect's client in this process is set to."""
    home.prefect.mkdir()
    with temporary_settings({PREFECT_API_URL: server}):
        yield server


def there(api: str) -> dict[str, dict[str, Any]]:
    """Ours on the server, by name."""
    found = httpx.post(f"{api}/automations/filter", json={}).raise_for_status().json()
    ours = (one for one in found if one["name"].startswith(PREFIX))
    return {one["name"].removeprefix(PREFIX): one for one in ours}


def test_they_are_made_once_and_stay_as_the_user_leaves_them(
    api: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert apply_automations(home, None) is None
    first = there(api)
    assert set(first) == ALWAYS

    url = f"{api}/automations/{first['missed its start']['id']}"
    httpx.patch(url, json={"enabled": False}).raise_for_status()
    url = f"{api}/automations/{first['no heartbeat']['id']}"
    changed = {**first["no heartbeat"], "description": "mine"}
    changed["trigger"] = {**changed["trigger"], "within": 600}
    kept = ("name", "description", "enabled", "trigger", "actions")
    httpx.put(url, json={key: changed[key] for key in kept}).raise_for_status()
    apply_automations(home, None)
    later = there(api)
    assert {name: one["id"] for name, one in later.items()} == {
        name: one["id"] for name, one in first.items()
    }
    assert not later["missed its start"]["enabled"]
    assert later["no heartbeat"]["description"] == "mine"
    assert later["no heartbeat"]["trigger"]["within"] == 600

    # Its lines in the file change; another one goes.
    spec = yaml.safe_load(AUTOMATIONS_FILE.read_text(encoding="utf-8"))
    by_name = {one["name"].removeprefix(PREFIX): one for one in spec["automations"]}
    by_name["no heartbeat"]["trigger"]["within"] = 90
    del by_name["never began"]
    file = tmp_path / "automations.yaml"
    file.write_text(json.dumps({"automations": list(by_name.values())}), encoding="utf-8")
    monkeypatch.setattr(automations, "AUTOMATIONS_FILE", file)
    apply_automations(home, None)
    last = there(api)
    assert set(last) == ALWAYS - {"never began"}
    assert last["no heartbeat"]["trigger"]["within"] == 90
    assert not last["missed its start"]["enabled"]


def test_somebody_is_told_while_a_block_is_named(api: str, home: Home) -> None:
    assert apply_automations(home, "custom-webhook/nobody") == "does not exist"
    Secret(value="abc").save("a-key")
    assert apply_automations(home, "secret/a-key") == "is no notification block"
    assert set(there(api)) == ALWAYS

    block = CustomWebhookNotificationBlock(name="team", url="http://127.0.0.1:9").save("team")
    assert apply_automations(home, "custom-webhook/team") is None
    found = there(api)
    assert set(found) == ALWAYS | TOLD
    for name in TOLD:
        (action,) = found[name]["actions"]
        assert (action["type"], action["block_document_id"]) == (
            "send-notification",
            str(block),
        )

    assert apply_automations(home, None) is None
    assert set(there(api)) == ALWAYS
