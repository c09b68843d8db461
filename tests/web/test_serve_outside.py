"""`tasuki serve`, `tasuki dashboard` and `tasuki doctor` with a public address."""

import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import run_tasuki
from serve_command import TASUKI, Server
from waiting import retry_until

PUBLIC = "https://fleet.example.com"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server whose user has a settings file."""
    made = Server(tmp_path)
    made.env["TASUKI_CONFIG"] = str(tmp_path / "config.toml")
    yield made
    made.end()


def configure(server: Server, **values: str) -> None:
    """Write the user's settings."""
    path = Path(server.env["TASUKI_CONFIG"])
    path.write_text("".join(f'{name} = "{value}"\n' for name, value in values.items()))


def run(server: Server, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the same user."""
    return run_tasuki(command, env=server.env, cwd=server.folder)


def test_the_dashboard_command_prints_both_links(server: Server) -> None:
    """The public one, and with --local that of this machine; each signs in."""
    configure(server, public_url=PUBLIC)
    server.start()
    public, local = run(server, "dashboard"), run(server, "dashboard", "--local")

    assert re.fullmatch(rf"{PUBLIC}/login\?key=\S{{20,}}\n", public.stdout), public.stderr
    port = server.address.rpartition(":")[2]
    assert re.fullmatch(rf"http://tasuki-\w+\.localhost:{port}/login\?key=\S{{20,}}\n", local.stdout)  # fmt: skip


def test_a_terminal_shows_the_public_link(server: Server) -> None:
    """`tasuki serve` prints the address that other machines open."""
    configure(server, public_url=PUBLIC)
    ours, theirs = pty.openpty()
    running = subprocess.Popen([str(TASUKI), "serve", "--port", "0"], env=server.env, cwd=server.folder, stdout=theirs, stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(theirs)
    try:
        said = ""
        while "login?key=" not in said:
            said += os.read(ours, 4096).decode()
    finally:
        running.terminate()
        running.wait(20)
        os.close(ours)

    assert f"Its dashboard, in a browser: {PUBLIC}/login?key=" in said


def test_doctor_says_that_the_server_was_not_restarted(server: Server) -> None:
    """As long as the running one has another public address than the settings, or none."""
    server.start()
    alike = run(server, "doctor").stdout
    configure(server, public_url=PUBLIC)
    without = run(server, "doctor")
    server.end()
    stopped = run(server, "doctor").stdout
    server.start()
    configure(server, public_url="https://other.example.com")
    other = " ".join(run(server, "doctor").stdout.split())
    configure(server, public_url=PUBLIC)
    again = run(server, "doctor").stdout

    assert without.returncode == 1
    assert "was started without public_url; the setting is https://fleet.example.com." in " ".join(without.stdout.split())  # fmt: skip
    assert "restart tasuki serve" in without.stdout
    assert "was started with public_url https://fleet.example.com; the setting is https://other" in other  # fmt: skip
    assert "public_url" not in alike + stopped + again


def test_doctor_says_what_does_not_fit_together(server: Server) -> None:
    """A proxy without users, and one whose system user is not there."""
    configure(server, public_url=PUBLIC, proxy="user:no-such-user-7", proxy_user_header="Remote-User")  # fmt: skip
    lacking = " ".join(run(server, "doctor").stdout.split())
    configure(server, public_url=PUBLIC, proxy="user:no-such-user-7", proxy_user_header="Remote-User", proxy_users="ann")  # fmt: skip
    unknown = run(server, "doctor")

    assert "proxy is set without proxy_users: the proxy signs nobody in." in lacking
    assert unknown.returncode == 1
    assert "There is no system user no-such-user-7 here" in " ".join(unknown.stdout.split())


def test_a_proxy_that_cannot_be_known_is_refused_at_the_start(server: Server) -> None:
    """Nothing is begun: no lock, no database."""
    configure(server, public_url=PUBLIC, proxy="user:no-such-user-7", proxy_user_header="Remote-User", proxy_users="ann")  # fmt: skip
    code, said = server.refused()

    assert code == 2
    assert "There is no system user no-such-user-7 here, which the setting proxy names." in said
    assert not server.fleet.exists()


def test_a_second_server_is_told_where_the_first_one_is(server: Server) -> None:
    """Its public address too."""
    configure(server, public_url=PUBLIC)
    running = server.start()
    retry_until(lambda: server.health() == "ok")
    _, said = server.refused("--port", "0")

    assert f"(process {running.pid}, http://{server.address}, {PUBLIC})" in said
