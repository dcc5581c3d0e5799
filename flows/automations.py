"""What automations.yaml holds onto the server that is set.

An automation that was changed or switched off in the UI stays as it is until its lines in the file
change; one that is no longer in the file goes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from twolevers.files import read_json, write_json
from twolevers.settings import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

AUTOMATIONS_FILE = Path(__file__).resolve().parents[1] / "automations.yaml"
if not AUTOMATIONS_FILE.is_file():  # installed from a wheel, where it lies among the flows
    AUTOMATIONS_FILE = AUTOMATIONS_FILE.parent / "flows" / AUTOMATIONS_FILE.name
BLOCK = "{{ $NOTIFY }}"


def automations(block_id: str | None) -> dict[str, Any]:
    """The automations of the file by name; without a block to notify, those that need none."""
    listed = yaml.safe_load(AUTOMATIONS_FILE.read_text(encoding="utf-8"))["automations"]
    texts = [json.dumps(one) for one in listed]
    ready = [
        json.loads(text.replace(BLOCK, block_id or ""))
        for text in texts
        if block_id or BLOCK not in text
    ]
    return {one["name"]: one for one in ready}


def apply_automations(home: Home, notify: str | None) -> str | None:
    """Make, change and remove what differs.

    Args:
        notify: the notification block to tell, as `slack-webhook/team`.

    Returns:
        What is wrong with that block, None where nothing is.
    """
    from prefect.client.orchestration import get_client
    from prefect.events.schemas.automations import AutomationCore

    kept = home.prefect / "deployed-automations.json"
    before = read_json(kept) if kept.is_file() else {}
    with get_client(sync_client=True) as client:
        block_id, problem = find_block(client, notify) if notify else (None, None)
        wanted = automations(block_id)
        for name in {*before, *wanted}:
            found = client.read_automations_by_name(name)
            if name not in wanted:
                for one in found:
                    client.delete_automation(one.id)
            elif not found:
                client.create_automation(AutomationCore.model_validate(wanted[name]))
            elif wanted[name] != before.get(name):
                client.update_automation(found[0].id, AutomationCore.model_validate(wanted[name]))
    write_json(kept, wanted)
    return problem


def find_block(client: SyncPrefectClient, notify: str) -> tuple[str | None, str | None]:
    """Id of a notification block, or what is wrong with it."""
    from prefect.exceptions import ObjectNotFound

    kind, _, name = notify.partition("/")
    try:
        block = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        return None, "does not exist"
    if block.block_schema is None or "notify" not in block.block_schema.capabilities:
        return None, "is no notification block"
    return str(block.id), None
