"""`scripts/demo machines`: an agent moves to another host with its uncommitted work, although a server is killed.

Both hosts are on this computer: each has a home, a data folder, a tmux server, a checkout and a server
of tasuki of its own, and they share a PostgreSQL that the demonstration starts. The agents are tasuki's
scripted harness, which behaves in a terminal as Claude Code does and asks no model. Nothing of the
user's is read or written, and everything is taken away at the end.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stage import SECONDS, TASUKI, Stage, needed, say, temporary, until

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import databases

CON = "You are Con, a developer. You make small changes and test each of them.\n"
TASK = "Make the retries of the upload client configurable. Never touch vendor/."
BEFORE = "def upload(session, part, url):\n    return session.put(url, data=part.body)\n"
AFTER = "def upload(session, part, url, attempts=4):\n    return session.put(url, data=part.body)\n"
STARTS_AFTER = 8.0
"""Seconds for which the successor starts, so that there is time to kill a server."""
DOCUMENT = r"(?is)\bwrite\b.*?(?P<path>/[^\s`'\"]*/handoffs/[^\s`'\"]+\.md)"


class Host(Stage):
    """One of the hosts, with its checkout in `project`."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        folder.mkdir()
        rules = [{"match": DOCUMENT, "do": [["document", "{path}"], ["say", "The document is written."]]}]  # fmt: skip
        super().__init__(folder, rules)
        self.name, self.prompt = name, f"{name}$"
        self.options = ("--database-url", url)
        self.project = folder / "project"

    def git(self, *words: str, folder: Path | None = None, show: bool = True) -> str:
        """Run git in the checkout, or in another folder of this host; what it prints."""
        if show:
            say(f"\n{self.prompt} git {' '.join(words)}")
        who = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
        done = subprocess.run(
            ("git", *who, *words), cwd=folder or self.project, env=self.env, text=True, capture_output=True, check=True,
        )  # fmt: skip
        if show:
            say(done.stdout.rstrip() or "(nothing)")
        return done.stdout

    def join(self) -> None:
        """Put the fleet's hooks into the harness, start the server, and give the host its name."""
        self.run("install", "claude", "--fleet", "--yes")
        self.serve()
        hosts = json.loads(self.run("host", "list", "--json", show=False))["hosts"]
        (own,) = (host["id"] for host in hosts if host["state"] == "here")
        self.run("host", "label", own, self.name)


def work(one: Host, two: Host, origin: Path) -> None:
    """One repository, checked out on both hosts."""
    subprocess.run(("git", "init", "-q", "--bare", "-b", "main", str(origin)), env=one.env, check=True)  # fmt: skip
    one.git("clone", "-q", str(origin), ".", show=False)
    (one.project / "upload.py").write_text(BEFORE)
    one.git("add", ".", show=False)
    one.git("commit", "-q", "-m", "As it was", show=False)
    one.git("push", "-q", "origin", "HEAD:main", show=False)
    two.git("clone", "-q", str(origin), ".", show=False)


def begin(one: Host, two: Host) -> None:
    """The hosts see each other, and an agent of the first one has uncommitted work."""
    one.join()
    two.join()
    until(lambda: "alive" in {host["state"] for host in one.api("GET", "hosts")["hosts"]})
    one.run("host", "list")
    (one.folder / "con.md").write_text(CON)
    one.run("persona", "add", "developer", "con", "--skill", str(one.folder / "con.md"))
    one.run("agent", "start", "--persona", "developer-con-1")
    until(lambda: one.agents()[0]["state"] == "idle")
    one.run("agent", "send", "1", TASK)
    until(lambda: one.agents()[0]["state"] == "idle")
    say(f"\n# The agent has edited a file and made a new one; neither is committed, and {two.name} has none of it.")  # fmt: skip
    (one.project / "upload.py").write_text(AFTER)
    one.git("add", "upload.py", show=False)
    (one.project / "limits.py").write_text("ATTEMPTS = 4\n")


def move(one: Host, two: Host) -> Any:
    """Move the agent while the server of its host is killed; the handoff at its end."""
    words = ("agent", "handoff", "1", "--reason", "more memory", "--to-host", two.name)
    to = ("--to-cwd", str(two.project))
    say(
        "\n# A dry run says what would happen, and every obstacle. The scripted harness needs no login."
    )
    one.run(*words, *to, "--dry-run")
    script = json.loads((two.folder / "script.json").read_text())
    (two.folder / "script.json").write_text(json.dumps({**script, "start_delay": STARTS_AFTER}))
    say(f"\n{one.prompt} tasuki {' '.join((*words[:4], repr(words[4]), *words[5:], *to))} --watch")
    watch = subprocess.Popen([str(TASUKI), *words, *to, "--watch"], env=one.env, cwd=one.project)
    try:
        until(lambda: one.api("GET", "handoffs")["handoffs"])
        until(lambda: one.api("GET", "handoffs")["handoffs"][0]["step"] == "register")
        say(f"\n# The work has arrived, and the successor is starting on {two.name}. Now {one.name}'s server is killed.")  # fmt: skip
        one.kill()
        say("# The old agent is alive and ends only when its server is back.")
        one.serve()
        if watch.wait(SECONDS):
            raise SystemExit("The move did not end well.")
    finally:
        if watch.poll() is None:
            watch.terminate()
            watch.wait()
    (handoff,) = two.api("GET", "handoffs")["handoffs"]
    return handoff


def shown(one: Host, two: Host) -> None:
    """The demonstration."""
    begin(one, two)
    before = one.git("status", "--short", "--branch")
    thread = Path(one.agents()[0]["thread"])
    handoff = move(one, two)
    two.run("agent", "list")
    successor = next(agent for agent in two.agents() if agent["id"] == handoff["successor_id"])
    say("\n# Its folder there is in the same state, staged and new files alike.")
    say(f"{two.prompt} cd {successor['cwd']}")
    after = two.git("status", "--short", "--branch", folder=Path(successor["cwd"]))
    say(f"\n# {two.name} has the thread, too. Here it would find {one.name}'s own file, so that is put away first.")  # fmt: skip
    thread.rename(thread.with_suffix(".away"))
    cited = two.run("read", f"{thread}#1")
    counts = {
        "instructions to the old agent": len(one.seen("prompt", "Write a handoff document")),
        "exits of it": len(one.seen("exit")),
        "successors": len(two.seen("started")),
        "prompts to the successor": len(two.seen("prompt", "Begin your answer with")),
    }
    say("\nCounted in the harness's own journals: " + ", ".join(f"{n} × {what}" for what, n in counts.items()))  # fmt: skip
    if set(counts.values()) != {1}:
        raise SystemExit("Something happened twice, or not at all.")
    if files(before) != files(after) or "retries" not in cited:
        raise SystemExit("What arrived is not what was sent.")
    say(
        "Each once, although a server was killed in the middle. With real machines: tasuki docs machines"
    )


def files(status: str) -> list[str]:
    """The lines of `git status` that name files."""
    return [line for line in status.splitlines() if not line.startswith("##")]


def main() -> None:
    """Show it, in folders that are taken away."""
    needed("git", "tmux", "curl")
    if why := databases.missing():
        raise SystemExit(why)
    try:
        with temporary() as folder, ExitStack() as stack:
            say(
                "Two hosts, laptop and build2, share one PostgreSQL. Both are on this computer, each with a home,"
            )
            say("a data folder, a tmux and a server of its own.")
            postgres = stack.enter_context(databases.postgres())
            url = postgres.make("fleet")
            hosts = []
            for name in ("laptop", "build2"):
                hosts.append(Host(folder / name, name, url))
                stack.callback(hosts[-1].close)
            work(*hosts, folder / "origin.git")
            shown(*hosts)
    except KeyboardInterrupt:
        say("\nEverything was taken away.")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
