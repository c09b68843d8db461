"""Where sessions of a working directory lie."""

import os
import re


def folder_name(cwd: str) -> str:
    """Folder name of a working directory: `--home-me-proj--`; symbolic links stay as they are."""
    path = os.path.abspath(cwd).removeprefix("/")
    return f"--{re.sub(r'[/:]', '-', path)}--"
