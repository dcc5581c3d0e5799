"""The command `twolevers deploy`: prefect.yaml onto a server, once for a whole team."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from flows import deploy
from flows.parts import say
from flows.pull import BRANCH, REPOSITORY
from flows.running import running_server
from flows.temporary_server import check_server, reach_directly
from twolevers.environment import writable_home
from twolevers.errors import InputError, Problem, TwoleversError
from twolevers.settings import Home


def deploy_prefect_file(repository: str | None, branch: str | None) -> None:
    """Deploy onto the server that is set, or onto that of this home's `twolevers up`.

    Args:
        repository: git address that workers fetch the code from; None: they run this folder's.
        branch: of the repository; None: its default branch.

    Raises:
        InputError: there is no server.
        TwoleversError: the server does not answer, or refuses.
    """
    home = writable_home()
    reach_directly()
    address = os.environ.get("PREFECT_API_URL")
    if address:
        check_server(address)
    elif running := running_server(home, "Prefect"):
        address = os.environ["PREFECT_API_URL"] = f"{running.address}/api"
    else:
        what_to_do = "set it to http://HOST:4200/api, or start a server here: twolevers up"
        raise InputError(Problem("PREFECT_API_URL", None, "names no Prefect server", what_to_do))
    for variable, value in ((REPOSITORY, repository), (BRANCH, branch)):
        os.environ[variable] = value or ""
    say("server", address)
    say("code", _source(repository, branch))
    run_deploy(home)


def _source(repository: str | None, branch: str | None) -> str:
    if repository:
        return f"{repository.split('@')[-1]}, {f'branch {branch}' if branch else 'default branch'}"
    return f"{deploy.CODE}; for workers elsewhere give --repository"


def run_deploy(home: Home, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Deploy in another process, which imports the flows; call `meanwhile` until it has ended."""
    began = time.monotonic()
    log = home.prefect / "deploy.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.deploy"],
            cwd=deploy.CODE,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            meanwhile()
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise TwoleversError(f"What is to be deployed could not be. The log says why: {log}")
    names = [deployment["name"] for deployment in deploy.deployments()]
    say("deployed", ", ".join(names), time.monotonic() - began)
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(deploy.WHO_IS_TOLD):
            say("notify", line.removeprefix(deploy.WHO_IS_TOLD))
