"""The command line beside a server of the test's own."""

import os
from pathlib import Path
from typing import Any

from forked import run_tasuki
from web_servers import Served

from tasuki.fleet.agents import personas
from tasuki.fleet.orders.bodies import NewPersona


class Desk:
    """A server, and the command line beside it."""

    def __init__(self, folder: Path, served: Served) -> None:
        self.folder = folder
        self.served = served
        self.database = served.fleet.database
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TASUKI_DATA": str(folder), "LANG": "C.UTF-8",
                    "TASUKI_CONFIG": os.devnull, "COLUMNS": "100"}  # fmt: skip

    def run(self, *arguments: str, text: str = "") -> tuple[int, str, str]:
        """Exit code, output and errors of one command."""
        done = run_tasuki(arguments, env=self.env, cwd=self.folder, input=text)
        return done.returncode, done.stdout, done.stderr

    def out(self, *arguments: str, text: str = "") -> str:
        """What a command that succeeds prints."""
        code, out, error = self.run(*arguments, text=text)
        assert code == 0, (code, out, error)
        return out

    def persona(self, **values: Any) -> str:
        """A persona, made without the command line."""
        return personas.add_persona(
            self.database,
            self.served.fleet.root,
            NewPersona(role="developer", name="con", **values),
        ).slug
