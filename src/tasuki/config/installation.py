"""How this tasuki was installed: the lines that add an extra to it, and that remove it."""

import json
import os
import shlex
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tasuki.patterns import compile_pattern

_EXTRA = compile_pattern(r"""^([\w.-]+).*;.*\bextra == ['"](\w+)['"]""")


def build_install_line(extra: str) -> str:
    """Build the shell command that adds an extra and keeps those that are there.

    `direct_url.json` (PEP 610) records the source of the installation; without that it came
    from a registry.
    """
    origin: dict[str, Any] = {}
    with suppress(metadata.PackageNotFoundError, ValueError, OSError):
        document = json.loads(metadata.distribution("tasuki").read_text("direct_url.json") or "{}")
        origin = document if isinstance(document, dict) else {}
    address, folder_info = str(origin.get("url", "")), origin.get("dir_info")
    path = unquote(urlsplit(address).path) if address.startswith("file:") else ""
    if isinstance(source := origin.get("vcs_info"), dict) and source.get("vcs"):
        revision = source.get("requested_revision")
        address = f"{source['vcs']}+{address}{f'@{revision}' if revision else ''}"
    names = {extra, *list_extras()}
    extras = ",".join(sorted(names & {"all", "eval"} if "all" in names else names))
    if path.endswith(".whl") or (address and not path):
        requirement = f"tasuki[{extras}] @ {address}"
    else:
        requirement = f"{path or 'tasuki'}[{extras}]"
    editable = ("-e",) if isinstance(folder_info, dict) and folder_info.get("editable") else ()
    installer = _find_installer()
    if installer == "uv":
        command = ["uv", "tool", "install", *editable, requirement, *_list_companions()]
    elif installer == "pipx":
        command = ["pipx", "install", "--force", *editable, requirement]
    else:
        command = [*_find_pip("install"), *editable, requirement]
    return shlex.join(command)


def build_removal_line() -> str:
    """Build the shell command that removes tasuki itself."""
    installer = _find_installer()
    if installer:
        return f"{'uv tool' if installer == 'uv' else 'pipx'} uninstall tasuki"
    return shlex.join((*_find_pip("uninstall"), "tasuki"))


def list_extras() -> list[str]:
    """List the extras of which every package is there; `all` holds the others but `eval`."""
    try:
        requirements = metadata.requires("tasuki") or ()
    except metadata.PackageNotFoundError:
        return []
    needed: dict[str, list[str]] = {}
    for found in filter(None, map(_EXTRA.match, requirements)):
        needed.setdefault(found[2], []).append(found[1])
    return [extra for extra, names in needed.items() if all(map(_is_there, names))]


def _is_there(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def _find_installer() -> str:
    """Find the program that owns this environment: `uv` or `pipx`; empty for none."""
    records = {"uv": "uv-receipt.toml", "pipx": "pipx_metadata.json"}
    owners = (name for name, file in records.items() if os.path.exists(f"{sys.prefix}/{file}"))
    return next(owners, "")


def _list_companions() -> Iterator[str]:
    """Yield the options that keep what uv installed beside tasuki."""
    try:
        receipt = tomllib.loads(Path(sys.prefix, "uv-receipt.toml").read_text("utf-8"))
        for one in receipt["tool"]["requirements"]:
            if one["name"] != "tasuki":
                extras = f"[{','.join(one['extras'])}]" if one.get("extras") else ""
                source = (
                    one.get("editable") or one.get("directory") or one.get("path") or one["name"]
                )
                option = "--with-editable" if one.get("editable") else "--with"
                yield from (option, f"{source}{extras}{one.get('specifier', '')}")
    except (OSError, ValueError, KeyError, TypeError):
        return


def _find_pip(command: str) -> tuple[str, ...]:
    """Find what installs into this environment, also where it is not the active one."""
    if find_spec("pip"):
        return sys.executable, "-m", "pip", command
    return "uv", "pip", command, "--python", sys.executable
