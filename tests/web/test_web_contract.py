"""What programs rely on in the HTTP API: routes, parameters, the keys and bounds of bodies and answers.

Words may change, these may not without a line in the changelog.
Written anew by: TASUKI_WRITE_GOLDEN=1 scripts/test tests/web/test_web_contract.py
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tree import FIXTURES

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet.service import open_fleet
from tasuki.fleet.store import schema
from tasuki.web.application import create_application
from tasuki.web.security.access import load_tokens

GOLDEN = FIXTURES.parent / "golden" / "api.txt"
WORDS = {"description", "title", "examples"}
METHODS = ("get", "post", "patch", "delete", "put")


@pytest.fixture
def described(tmp_path: Path) -> list[str]:
    """A line for every operation of the API, and one for every other route."""
    fleet = open_fleet(tmp_path / "fleet", "", LoadedSettings(Settings()))
    schema.create_tables(fleet.database)
    app = create_application(fleet, load_tokens(tmp_path / "fleet"))
    document = app.openapi_schema.to_schema()
    lines = [
        f"{method.upper()} {path} {describe_operation(one, document['components']['schemas'])}"
        for path, methods in document["paths"].items()
        for method in METHODS
        if (one := methods.get(method))
    ]
    known = {line.split()[0] + line.split()[1] for line in lines}
    for route in app.routes:
        path = route.path_format
        for method in sorted(getattr(route, "methods", ()) - {"OPTIONS"}):
            lines += [f"{method} {path}"] if method + path not in known else []
    fleet.database.close()
    return sorted(lines)


def describe_operation(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Describe an operation as JSON, without its words and with what it refers to."""

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return resolve(schemas[value["$ref"].rpartition("/")[2]])
        if isinstance(value.get("properties"), dict):
            kept = {**value, "properties": resolve_all(value["properties"])}
            return {key: kept[key] for key in kept if key not in WORDS}
        return {key: resolve(one) for key, one in value.items() if key not in WORDS}

    def resolve_all(properties: dict[str, Any]) -> dict[str, Any]:
        return {name: resolve(one) for name, one in properties.items()}

    parts = {
        "parameters": {
            one["name"]: [one["in"], one["required"], resolve(one["schema"])]
            for one in operation.get("parameters", ())
        },
        "body": resolve(operation.get("requestBody", {})),
        "answers": {
            status: resolve(one.get("content", {}))
            for status, one in operation["responses"].items()
            if status != "400"
        },
    }
    return json.dumps(parts, sort_keys=True)


def test_the_api_is_as_it_was(described: list[str]) -> None:
    """No route, parameter, key or bound goes or comes unseen."""
    if "TASUKI_WRITE_GOLDEN" in os.environ:
        GOLDEN.write_text("\n".join(described) + "\n")

    before = GOLDEN.read_text().splitlines()
    assert sorted(set(before) ^ set(described)) == []
