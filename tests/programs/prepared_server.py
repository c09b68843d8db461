"""Does once what takes a server long: registers its routes, loads all harnesses.

All servers that are forked after this import have that already.
"""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

import shared_routes  # noqa: F401

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.fleet.exchange.heartbeat import list_harnesses
from tasuki.fleet.service import open_fleet
from tasuki.fleet.store import schema
from tasuki.web.application import create_application
from tasuki.web.security.access import load_tokens

with tempfile.TemporaryDirectory() as folder:
    fleet = open_fleet(Path(folder, "fleet"), "", LoadedSettings(Settings()))
    schema.create_tables(fleet.database)
    create_application(fleet, load_tokens(Path(folder, "fleet")))
    list_harnesses(Path(folder, "fleet"))
    fleet.database.close()
