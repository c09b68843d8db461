"""`tasuki dashboard`: the link that signs a browser in."""

import click


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
def dashboard(opens: bool) -> None:
    """Print the link that opens the dashboard of the server which runs.

    It signs a browser in for 30 days and holds until the server ends: whoever has it can do what you
    can. A server's start prints it too.
    """
    from tasuki.cli.fleet_client import Client

    server = Client()
    link = f"http://{server.address()}/login?key={server.post('login')['key']}"
    click.echo(link)
    if opens and click.launch(link):
        raise click.ClickException("No browser could be opened here. Open the link above in one.")
