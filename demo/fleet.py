"""`scripts/demo fleet`: two personas, one handoff from start to acknowledged, a server killed in the middle.

The agents are tasuki's scripted harness, which behaves in a terminal as Claude Code does and asks no
model. Everything happens in a folder of its own, with a tmux server of its own, and is taken away.
"""

import subprocess
import time
from pathlib import Path
from typing import Any

from stage import SECONDS, TASUKI, Stage, say, stage, until

CON = "You are Con, a developer. You make small changes and test each of them.\n"
ROBIN = "You are Robin, a reviewer. You read what others changed and name what can fail.\n"
HOLD = "document-may-be-written"


def rules(folder: Path) -> list[dict[str, Any]]:
    """The outgoing agent writes its document when it is let, so that there is time to kill the server."""
    document = r"(?is)\bwrite\b.*?(?P<path>/[^\s`'\"]*/handoffs/[^\s`'\"]+\.md)"
    does = [["wait_for", str(folder / HOLD)], ["document", "{path}"], ["say", "The document is written."]]  # fmt: skip
    return [{"match": document, "do": does}]


def shown(demo: Stage) -> None:
    """The demonstration."""
    (demo.folder / "con.md").write_text(CON)
    (demo.folder / "robin.md").write_text(ROBIN)
    demo.serve()
    demo.run("install", "claude", "--fleet", "--yes")
    demo.run("persona", "add", "developer", "con", "--skill", str(demo.folder / "con.md"))
    demo.run("persona", "add", "reviewer", "robin", "--skill", str(demo.folder / "robin.md"))
    demo.run("agent", "start", "--persona", "developer-con-1")
    demo.run("agent", "start", "--persona", "reviewer-robin-1")
    until(lambda: all(agent["state"] == "idle" for agent in demo.agents()))
    demo.run(
        "agent",
        "send",
        "1",
        "Make the retries of the upload client configurable. Never touch vendor/.",
    )
    until(lambda: demo.agents()[-1]["state"] == "idle")
    demo.run("agent", "list")

    say("\n$ tasuki agent handoff 1 --reason context_limit --watch")
    watch = subprocess.Popen(
        [str(TASUKI), "agent", "handoff", "1", "--reason", "context_limit", "--watch"],
        env=demo.env, cwd=demo.folder,
    )  # fmt: skip
    until(lambda: demo.seen("prompt", "Write a handoff document"))
    time.sleep(1)
    demo.kill()
    (demo.folder / HOLD).touch()
    say("# The agent writes its document while no server is there; its hooks keep what happens.")
    time.sleep(2)
    demo.serve()
    if watch.wait(SECONDS):
        raise SystemExit("The handoff did not end well.")

    demo.run("agent", "list")
    demo.run("handoffs", "--agents")
    (document,) = (demo.data / "data/personas/developer-con-1/handoffs").glob("*.md")
    say(f"\n$ head -20 {document.name}\n" + "\n".join(document.read_text().splitlines()[:20]))
    counts = {
        "instructions": len(demo.seen("prompt", "Write a handoff document")),
        "exits": len(demo.seen("exit")),
        "successors": len(demo.seen("started")) - 2,
        "prompts to the successor": len(demo.seen("prompt", "Begin your answer with")),
    }
    say("\nCounted in the harness's own journal: " + ", ".join(f"{n} × {what}" for what, n in counts.items()))  # fmt: skip
    if set(counts.values()) != {1}:
        raise SystemExit("Something happened twice, or not at all.")
    say("Each once, although the server was killed in the middle. With real agents: docs/fleet.md")


def main() -> None:
    """Show it, in a folder that is taken away."""
    with stage(rules) as demo:
        shown(demo)


if __name__ == "__main__":
    main()
