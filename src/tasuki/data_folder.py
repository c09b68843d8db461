"""The folder that holds what tasuki keeps."""

import os
from pathlib import Path


def data_folder() -> Path:
    """Where tasuki keeps its data: `$TASUKI_DATA`, else the user's data folder."""
    if configured := os.environ.get("TASUKI_DATA"):
        return Path(configured).expanduser()
    from platformdirs import user_data_path

    return user_data_path("tasuki")
