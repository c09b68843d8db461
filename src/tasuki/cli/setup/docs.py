"""`tasuki docs` and `tasuki completion`."""

from pathlib import Path

import click

import tasuki


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the documentation, or list them.

    PAGE is a name of the list, such as `quickstart` or `harnesses/claude`. They are those of the installed version.
    """
    folder = find_docs_folder()
    pages = {str(p.relative_to(folder).with_suffix("")): p for p in sorted(folder.rglob("*.md"))}
    if page is None:
        click.echo("\n".join(pages))
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise click.UsageError(f"No page {page!r}. The pages: tasuki docs")
    click.echo_via_pager(pages[name].read_text("utf-8"))


def find_docs_folder() -> Path:
    """Find the folder of the pages: in the package of a wheel, or `docs/` of a checkout.

    Raises UsageError.
    """
    package = Path(tasuki.__file__).parent
    for folder in (package / "docs", package.parent.parent / "docs"):
        if (folder / "quickstart.md").is_file():
            return folder
    raise click.UsageError(
        "This installation holds no documentation; the checkout has it in docs/."
    )


_SHELLS = {"bash": "bash_source", "zsh": "zsh_source", "fish": "fish_source"}
_INSTALL_LINES = {
    "bash": "echo 'eval \"$(tasuki completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(tasuki completion zsh)\"' >> ~/.zshrc",
    "fish": "tasuki completion fish > ~/.config/fish/completions/tasuki.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  echo 'eval "$(tasuki completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(tasuki completion zsh)"' >> ~/.zshrc
    fish:  tasuki completion fish > ~/.config/fish/completions/tasuki.fish
    """
    from click.shell_completion import get_completion_class

    from tasuki.cli.main import cli

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(cli, {}, "tasuki", "_TASUKI_COMPLETE").source())
