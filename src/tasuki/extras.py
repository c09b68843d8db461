"""The line that installs an extra in the way in which this tasuki was installed.

That is from a checkout, a wheel or a registry.
"""

import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def build_install_line(extra: str) -> str:
    """Build a shell command, for a sentence that says what is missing.

    `direct_url.json` (PEP 610) records the source of the installation; without that it came
    from a registry.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        document = json.loads(distribution("tasuki").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError, OSError):
        document = {}
    origin: dict[str, Any] = document if isinstance(document, dict) else {}
    address, folder_info = str(origin.get("url", "")), origin.get("dir_info")
    path = unquote(urlsplit(address).path) if address.startswith("file:") else ""
    if isinstance(source := origin.get("vcs_info"), dict) and source.get("vcs"):
        address = f"{source['vcs']}+{address}"
    if path.endswith(".whl") or (address and not path):
        requirement = f"tasuki[{extra}] @ {address}"
    else:
        requirement = f"{path or 'tasuki'}[{extra}]"
    editable = "-e " if isinstance(folder_info, dict) and folder_info.get("editable") else ""
    return f"{_find_installer()} {editable}{shlex.quote(requirement)}"


def _find_installer() -> str:
    """Find the program that owns this environment: a tool of uv or pipx, else pip."""
    parts = Path(sys.prefix).parts
    if "uv" in parts and "tools" in parts:
        return "uv tool install"
    if "pipx" in parts:
        return "pipx install --force"
    return "pip install"
