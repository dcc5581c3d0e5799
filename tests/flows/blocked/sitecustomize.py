"""Loaded by every Python process of a test run: sockets reach loopback and nothing else."""

import socket

_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo


def _check(sock: socket.socket, address: object) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        host = address[0]  # type: ignore[index]
        if host not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(101, f"blocked by the test: {address!r}")


def connect(self: socket.socket, address: object) -> None:
    _check(self, address)
    return _connect(self, address)


def connect_ex(self: socket.socket, address: object) -> int:
    _check(self, address)
    return _connect_ex(self, address)


def getaddrinfo(host: object, *rest: object, **more: object) -> object:
    if host not in (None, "", "127.0.0.1", "::1", "localhost", "0.0.0.0"):
        raise socket.gaierror(-2, f"blocked by the test: {host!r}")
    return _getaddrinfo(host, *rest, **more)


socket.socket.connect = connect  # type: ignore[method-assign]
socket.socket.connect_ex = connect_ex  # type: ignore[method-assign]
socket.getaddrinfo = getaddrinfo  # type: ignore[assignment]
