"""`tasuki completion`: the script that completes commands, options and threads in a shell."""

import click

_SHELLS = {"bash": "bash_source", "zsh": "zsh_source", "fish": "fish_source"}
_WHERE = {
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

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "tasuki", "_TASUKI_COMPLETE").source())
