"""The form of a deployment: Prefect makes it of a flow's signature, this adds what there is.

A drop-down's values are not checked here: the plan does it, which knows short names and says what
is wrong with the others.
"""

from __future__ import annotations

from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from twolevers.choices import choices, explain


class Option:
    """Annotation of a parameter: the option's description, and its values where it has a list."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = {**handler(core), "description": explain(self.name)}
        if values := choices(self.name):
            (schema["items"] if schema.get("type") == "array" else schema)["enum"] = values
        return schema
