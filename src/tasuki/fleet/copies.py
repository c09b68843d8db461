"""Copies of SQLite's file from before its tables are changed; the last few are kept."""

import os
import secrets
import time
from pathlib import Path

import sqlalchemy as sa

MARK = ".before-"
KEPT = 3


def copy_file(database: sa.Engine, name: str) -> Path:
    """Copy a database of SQLite to `FILE.before-NAME-DATE`, for its owner alone; the path.

    Whole or not at all. Takes a second for each 100 MB. Raises OperationalError, OSError where there is no room.
    """
    source = Path(os.path.realpath(database.url.database or ""))
    date = time.strftime("%Y%m%d-%H%M%S")
    target = source.with_name(f"{source.name}{MARK}{name}-{date}")
    new = source.with_name(f".{target.name}-{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        with database.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw
            raw.rollback()  # it takes no transaction
            raw.execute("VACUUM INTO ?", (str(new),))
        os.fsync(number)
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(number)
    _prune(source, target)
    return target


def _prune(source: Path, newest: Path) -> None:
    """Remove all but the last copies; the newest stays whatever the clock says."""
    copies = [path for path in source.parent.glob(f"{source.name}{MARK}*") if path != newest]
    for path in sorted(copies, key=lambda path: path.stat().st_mtime)[: -(KEPT - 1)]:
        path.unlink(missing_ok=True)
