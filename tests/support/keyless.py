"""A home and a repository without a key in tests about models."""

import os
from pathlib import Path

import pytest

from tasuki.draft.models.providers import ModelEndpoint

SECRET = "sk-test-0123456789abcdef"
_VARIABLES = ("TASUKI_", "XDG_", "PI_", "CODEX_", "AWS_", "AZURE_", "GOOGLE_", "HF_")


def keyless_home(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without a key; no variable of the machine tells of one either."""
    folder = root / "home"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(_VARIABLES) or name.endswith(("_API_KEY", "_BASE_URL", "_AUTH_TOKEN")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def repository(root: Path) -> Path:
    """A repository without settings."""
    (root / "proj" / ".git").mkdir(parents=True)
    return root / "proj"


def named(endpoint: ModelEndpoint) -> str:
    """The model as it would be written."""
    return f"{endpoint.provider}/{endpoint.model}"
