"""Keep `docs/cli.md` in step with `--help`: compares, or rewrites with --write."""

import sys
from pathlib import Path

import click
from click.testing import CliRunner

from tasuki.cli.main import COMMANDS, cli

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
BEGIN = "<!-- help:{} -->\n"
END = "<!-- /help -->\n"


def help_of(*command: str) -> str:
    """What `tasuki COMMAND --help` prints, at a width of 100."""
    result = CliRunner().invoke(
        cli, [*command, "--help"], prog_name="tasuki", terminal_width=100, max_content_width=100
    )
    if result.exit_code:
        raise click.ClickException(f"tasuki {' '.join(command)} --help failed: {result.output}")
    return result.output


def commands() -> list[str]:
    """Every command, and those of groups behind their group: `handoffs find`."""
    found = []
    with click.Context(cli) as context:
        for name in COMMANDS:
            found.append(name)
            command = cli.get_command(context, name)
            if isinstance(command, click.Group):
                found += [f"{name} {sub}" for sub in command.commands]
    return found


def rendered(page: str) -> str:
    """The page with every help block made anew. Raises if a command has no block."""
    for name in ("", *commands()):
        begin = BEGIN.format(name or "tasuki")
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(END)
        if not (found and ended):
            raise click.ClickException(f"{PAGE.name} has no block {begin.strip()} … {END.strip()}")
        text = help_of(*name.split())
        page = f"{before}{begin}```text\n{text}```\n{END}{after}"
    return page


def main() -> int:
    """0 if the page is current."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = rendered(page)
    if "--write" in sys.argv:
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        print("docs/cli.md is not what --help says: scripts/check --fix", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
