"""Run a scripted program of `fakes` as its own process: `python tests/fake.py acp_agent SCRIPT`."""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(f"fakes.{sys.argv[0]}", run_name="__main__", alter_sys=True)
