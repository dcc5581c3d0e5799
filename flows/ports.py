"""Whether a port can be had, and if not, what is visible of who has it."""

from __future__ import annotations

import errno
import ipaddress
import socket
from pathlib import Path

import httpx

from twolevers.errors import Problem


def port_problem(host: str, port: int, option: str) -> Problem | None:
    """What is wrong with listening there; None where nothing is.

    Args:
        option: the command-line option that names another port.
    """
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as probe:
            # As the servers do: what a connection just ended has left does not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as error:
        return Problem("--host", host, f"is not known here ({error.strerror})", "name another")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            taken = f"is taken by {_holder(host, port)}"
            return Problem(f"port {port}", None, taken, f"end that, or name another: {option}")
        if error.errno == errno.EADDRNOTAVAIL:
            return Problem("--host", host, "is no address of this machine", "name another")
        return Problem(f"port {port}", None, f"{error.strerror}", f"name another: {option}")
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on that host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reached_at(host: str) -> str:
    """How this machine calls a server that listens on `host`, as part of an address."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def seen_at(host: str) -> str:
    """How other machines call a server that listens on `host`, as part of an address."""
    somewhere = {
        "0.0.0.0": (socket.AF_INET, "198.51.100.1"),
        "::": (socket.AF_INET6, "2001:db8::1"),
    }
    if host not in somewhere:
        return reached_at(host)
    kind, far = somewhere[host]
    try:
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # sends nothing; the system chooses which of its own it uses
            return reached_at(probe.getsockname()[0])
    except OSError:  # no network
        return socket.gethostname()


def _holder(host: str, port: int) -> str:
    """What listens there, as far as it shows."""
    found = [_kind_of_server(host, port), _process(port)]
    return ", ".join(what for what in found if what) or "another program"


def _kind_of_server(host: str, port: int) -> str:
    kinds = {"/api/admin/version": "a Prefect server", "/version": "an MLflow server"}
    for path, kind in kinds.items():
        try:
            url = f"http://{reached_at(host)}:{port}{path}"
            answer = httpx.get(url, timeout=2, trust_env=False)
        except (httpx.HTTPError, httpx.InvalidURL):
            return ""
        version = answer.text.strip().strip('"')
        if answer.is_success and version[:1].isdigit() and len(version) < 30:
            return f"{kind} ({version})"
    return ""


def _process(port: int) -> str:
    """Name and id of the process, where the system shows it (Linux)."""
    sockets = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:  # 0A: listens
                sockets.add(f"socket:[{fields[9]}]")
    for file in Path("/proc").glob("[0-9]*/fd/*") if sockets else ():
        try:
            if str(file.readlink()) in sockets:
                process = file.parents[1]
                name = (process / "comm").read_text().strip()
                return f"{name} (pid {process.name})"
        except OSError:
            continue
    return ""
