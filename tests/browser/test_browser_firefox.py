"""The dashboard in Firefox, another engine than that of the other tests: its pages are live there, too."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from npm_programs import node, puppeteer
from test_browser_live import add, change
from web_servers import serving

SCRIPT = Path(__file__).with_name("firefox.mjs")


def find_firefox() -> str:
    """The program; where it is missing the test is skipped, but not in CI."""
    found = shutil.which("firefox-esr") or shutil.which("firefox")
    if found is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no Firefox is installed")
    return str(found)


@pytest.mark.long
def test_the_dashboard_in_firefox(tmp_path: Path) -> None:
    """Events, eight tabs on one stream, keys and the palette work; nothing scrolls sideways, and there are no errors."""
    firefox = find_firefox()
    with serving(tmp_path / "served") as served:
        for number in range(1, 31):
            add(served, number)
        command = [str(node()), str(SCRIPT), str(puppeteer()), firefox, served.link]
        env = {**os.environ, "HOME": str(tmp_path), "MOZ_HEADLESS": "1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        ) as driver:
            assert driver.stdin, "no pipe"
            assert driver.stdout, "no pipe"

            def hear() -> object:
                assert driver.stdout
                line = driver.stdout.readline()
                assert line, "Firefox or its driver has ended"
                return json.loads(line)

            def go_on() -> None:
                assert driver.stdin
                driver.stdin.write("\n")
                driver.stdin.flush()

            try:
                assert hear() == "live"
                change(served, 9, state="waiting", waiting_for="Which database?")
                go_on()
                assert hear() == "(1) Fleet · tasuki"
                go_on()
                assert hear() == "tabs"
                assert len(served.pages.streams) == 1
                change(served, 12, state="waiting", waiting_for="Which colour?")
                for expected in ("all", "agent-9", [], []):
                    go_on()
                    assert hear() == expected
                go_on()
            finally:
                driver.stdin.close()
                try:
                    driver.wait(30)
                except subprocess.TimeoutExpired:
                    driver.kill()
