"""`scripts/demo dashboard`: a fleet of scripted agents at work, in a browser.

    python demo/dashboard.py [--pictures FOLDER [--every-page]]

The agents are tasuki's scripted harness, which behaves in a terminal as Claude Code does and asks no
model; they work in three repositories of a folder of its own, with a tmux server of its own. It
stays until Ctrl-C, and is taken away then. `--pictures`: Chromium makes pictures of the pages
instead, the two of the README or one of every page.
"""

import argparse
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import cast
from cast import CON, LENA, MIRA, PARTS, RAVI, ROBIN, Part
from stage import Stage, needed, say, stage, until

WRITES = 60.0
"""Seconds after which the agent that is handed off writes its document, and its successor answers."""
FILES = {
    "orchard-api": {
        "src/upload/client.py": "def upload(session, part, url):\n    return session.put(url, data=part.body)\n",
        "README.md": "# orchard-api\n\nStores what the orchard grows.\n",
    },
    "orchard-web": {
        "src/menu.js": "// nine menus\n", "src/gallery.css": ".gallery:hover .menu { display: block; }\n",
        "README.md": "# orchard-web\n",
    },
    "ledger": {
        "ledger/export.py": "def export(bookings):\n    return [round(b.amount, 2) for b in bookings]\n",
        "README.md": "# ledger\n\nSums to the cent.\n",
    },
}  # fmt: skip
TRIES = """
Try there:
  developer-mira-1 is past its threshold: Hand off, and watch the steps.
  reviewer-robin-1 waits for you: its card has the command; a click answers it.
  developer-ravi-1 wrote no document: Open handoff says what is safe; Retry carries on.
  architect-lena-1 is being handed off: Follow.
  developer-con-1 is the third of its chain: Lineage draws it.
Enter prints a new link. Nothing of yours is touched. Ctrl-C ends it and takes everything away."""


class Fleet:
    """The agents of the demonstration, by their personas."""

    def __init__(self, demo: Stage) -> None:
        self.demo = demo
        self.ids: dict[str, int] = {}
        self.handoffs: dict[str, str] = {}
        """The newest handoff of a persona."""

    def project(self, name: str) -> Path:
        """The folder of a project."""
        return self.demo.folder / "project" / name

    def start(self, part: Part) -> None:
        """An agent of a new persona."""
        self.demo.api("POST", "personas", role=part.role, name=part.name, skill=part.skill)
        cwd = str(self.project(part.project))
        made = self.demo.api("POST", "agents", persona=part.slug, harness="claude", cwd=cwd)
        self.ids[part.slug] = made["id"]

    def state(self, part: Part) -> str:
        """How an agent stands."""
        return str(self.demo.api("GET", f"agents/{self.ids[part.slug]}")["state"])

    def stands(self, part: Part, state: str) -> None:
        """Wait until an agent stands so."""
        until(lambda: self.state(part) == state)

    def asks(self, part: Part, text: str, then: str = "idle") -> None:
        """An agent is asked something, and stands so behind it."""
        self.demo.api("POST", f"agents/{self.ids[part.slug]}/send", text=text)
        self.stands(part, then)

    def hands_off(self, part: Part, reason: str) -> str:
        """A handoff begins; its id."""
        made = self.demo.api("POST", f"agents/{self.ids[part.slug]}/handoff", reason=reason)
        self.handoffs[part.slug] = made["id"]
        return str(made["id"])

    def ends(self, part: Part, state: str) -> Any:
        """The newest handoff of a persona once it has ended so; the persona's agent is its successor then."""
        path = f"handoffs/{self.handoffs[part.slug]}"
        until(lambda: self.demo.api("GET", path)["state"] != "running")
        found = self.demo.api("GET", path)
        if found["state"] != state:
            raise SystemExit(f"The handoff of {part.slug} is {found['state']}: {found['failure']}")
        if state == "done":
            self.ids[part.slug] = found["successor_id"]
            self.stands(part, "idle")
        return found

    def succeeds(self, part: Part, reason: str) -> None:
        """A handoff from its beginning to the successor at rest."""
        self.hands_off(part, reason)
        self.ends(part, "done")


def repositories(demo: Stage) -> None:
    """The projects that the agents work in."""
    for project, files in FILES.items():
        folder = demo.folder / "project" / project
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        who = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
        for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "As it was")):  # fmt: skip
            subprocess.run(("git", *who, *words), cwd=folder, env=demo.env, check=True)


def played(demo: Stage) -> Fleet:
    """The fleet as one finds it: agents that differ in how they stand."""
    repositories(demo)
    demo.serve()
    for words in (("--fleet", "--yes"), ("--yes",)):
        demo.run("install", "claude", *words, show=False)
    fleet = Fleet(demo)
    say("Seven agents take their places; that takes half a minute.")
    for part in PARTS:
        fleet.start(part)
    for part in PARTS:
        fleet.stands(part, "idle")
    for part in PARTS:
        fleet.asks(part, part.prompt)
    fleet.asks(ROBIN, cast.MIGRATE, "waiting")
    anonymous(fleet)
    fleet.hands_off(RAVI, "The context is full")
    fleet.succeeds(CON, "The context is full")
    fleet.asks(CON, cast.SECOND)
    fleet.succeeds(CON, cast.MILESTONE)
    fleet.asks(CON, cast.THIRD, "busy")
    fleet.ends(RAVI, "failed")
    fleet.hands_off(LENA, "The context is full")
    thread = demo.api("GET", f"agents/{fleet.ids[MIRA.slug]}")["session"]
    demo.run("handoff", "--from", thread, "--print", cast.GOAL, show=False)
    return fleet


def anonymous(fleet: Fleet) -> None:
    """An agent that its user started: in a pane of tmux, without a persona."""
    demo = fleet.demo
    known = len(demo.agents())
    cwd = str(fleet.project("orchard-web"))
    demo.tmux("new-session", "-d", "-s", "mine", "-x", "120", "-y", "30", "-c", cwd, "claude")
    until(lambda: len(demo.agents()) > known)
    demo.tmux("send-keys", "-t", "mine", "-l", cast.ANONYMOUS)
    demo.tmux("send-keys", "-t", "mine", "Enter")


def stays(fleet: Fleet) -> None:
    """Show the link, let the handoff that is under way go on, and wait to be ended."""
    folder = fleet.demo.folder
    say(f"\nOpen this in a browser, within a minute:\n\n  {new_link(fleet)}\n{TRIES}")
    for n, name in enumerate((cast.HELD, cast.READ), 1):
        later = threading.Timer(n * WRITES, (folder / name).touch)
        later.daemon = True
        later.start()
    while sys.stdin.isatty() and sys.stdin.readline():
        say(f"A new link, for a minute:\n\n  {new_link(fleet)}\n")
    while True:
        signal.pause()


def new_link(fleet: Fleet) -> str:
    """A link that signs one browser in."""
    return fleet.demo.run("dashboard", show=False).strip()


def main() -> None:
    """Set the fleet up, and stay, or make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--every-page", action="store_true")
    options = parser.parse_args()
    needed("git")
    try:
        with stage(cast.rules) as demo:
            fleet = played(demo)
            if options.pictures:
                import pictures

                pictures.make(fleet, options.pictures, options.every_page)
            else:
                stays(fleet)
    except KeyboardInterrupt:
        say("\nEverything was taken away.")


if __name__ == "__main__":
    main()
