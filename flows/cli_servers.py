"""The commands about servers and workers: `ui`, `up`, `down`, `status`, `deploy`."""

from __future__ import annotations

from typing import Annotated

import typer

servers = typer.Typer()


@servers.command()
def ui(
    which: Annotated[str, typer.Argument(help="mlflow or prefect")] = "mlflow",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="port on loopback")] = None,
) -> None:
    """Open one of the two web interfaces on this machine's runs."""
    from flows.launch import open_ui

    open_ui(which, port)


@servers.command()
def up(
    host: Annotated[
        str, typer.Option(help="who reaches the servers: this machine alone, or 0.0.0.0 for all")
    ] = "127.0.0.1",
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Prefect's port")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="MLflow's port")] = 5000,
    pool: Annotated[
        list[str] | None,
        typer.Option(help="work pool to take runs from (default: cpu, and cuda with a GPU)"),
    ] = None,
) -> None:
    """Start Prefect, MLflow and a worker, deploy prefect.yaml, and wait; Ctrl-C ends all of it.

    A server that PREFECT_API_URL or TWOLEVERS_TRACKING_URI names is used instead of one started
    here; with a Prefect server elsewhere nothing is deployed: that is twolevers deploy.
    """
    from flows.servers import up as start

    start(host, prefect_port, mlflow_port, pool or ())


@servers.command()
def deploy(
    repository: Annotated[
        str | None,
        typer.Option(
            envvar="TWOLEVERS_REPOSITORY",
            help="git address that workers fetch the code from; without it they run this folder's",
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option(envvar="TWOLEVERS_BRANCH", help="branch of the repository")
    ] = None,
) -> None:
    """Deploy prefect.yaml onto the server that PREFECT_API_URL names, once for a team."""
    from flows.deploy_command import deploy_prefect_file

    deploy_prefect_file(repository, branch)


@servers.command()
def down() -> None:
    """End what `twolevers up` started."""
    from flows.servers import down as end

    end()


@servers.command()
def status() -> None:
    """What of `twolevers up` runs, and where; exit status 1 if not all of it."""
    from flows.servers import status as shown

    if not shown():
        raise typer.Exit(1)
