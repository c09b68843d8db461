"""The line that installs an extra, as this tasuki was installed: from a checkout, a wheel or a registry."""

import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def install_line(extra: str) -> str:
    """A shell command, for a sentence that says what is missing.

    Where it was installed from stands in `direct_url.json` (PEP 610); without that it came from a registry.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        read = json.loads(distribution("tasuki").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError, OSError):
        read = {}
    told: dict[str, Any] = read if isinstance(read, dict) else {}
    address, about = str(told.get("url", "")), told.get("dir_info")
    path = unquote(urlsplit(address).path) if address.startswith("file:") else ""
    if isinstance(source := told.get("vcs_info"), dict) and source.get("vcs"):
        address = f"{source['vcs']}+{address}"
    if path.endswith(".whl") or (address and not path):
        what = f"tasuki[{extra}] @ {address}"
    else:
        what = f"{path or 'tasuki'}[{extra}]"
    editable = "-e " if isinstance(about, dict) and about.get("editable") else ""
    return f"{_installer()} {editable}{shlex.quote(what)}"


def _installer() -> str:
    """The program that this environment belongs to: a tool of uv or pipx, else pip."""
    parts = Path(sys.prefix).parts
    if "uv" in parts and "tools" in parts:
        return "uv tool install"
    if "pipx" in parts:
        return "pipx install --force"
    return "pip install"
