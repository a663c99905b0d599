"""Serving files to other machines."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any, Callable, Literal, NamedTuple

from . import _holdall
from .errors import UsageError

__all__ = ["Access", "Server", "serve"]

#: A path in the file system.
Path = str | os.PathLike[str]


class Access(NamedTuple):
    """A request to a server, and its outcome."""

    #: The client's host and port.
    client: str
    #: The protocol: ``"quic"`` or ``"http"``.
    protocol: str
    #: The requested name; empty if it was not a valid name.
    name: str
    #: The number of bytes that were sent.
    sent: int
    #: ``"whole"``, ``"left"`` if the client disconnected early, or the code of the rule by which it was refused.
    outcome: str


def serve(
    paths: Path | Iterable[Path],
    *,
    listen: str = "127.0.0.1:0",
    only: Literal["quic", "http"] | None = None,
    identity: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    tokens: None | Path | Iterable[str] = None,
    plain_http: bool | None = None,
    cors: str | None = None,
    metrics: str | None = None,
    hash: bool = False,
    rate: int | None = None,
    rate_of_all: int | None = None,
    clients: int = 256,
    files: int = 1024,
    requests: int = 16,
    in_flight: int = 8 << 20,
    idle_timeout: float = 30.0,
    log: Callable[[Access], object] | None = None,
) -> Server:
    """Serves files and folders to other machines, read-only: over QUIC (``holdall://…``) and HTTP (1.1 and 2, in plain text and over
    TLS), on threads that do not need the GIL. The address of a served file is accepted wherever a path is.

    ::

        with holdall.serve("models") as server:
            print(server.url("models/model.zt"))
            server.wait()

    Args:
        paths: Files and folders, one or several. Clients name a file by the name of the path given here and the rest below it:
            ``"models/a/b.zt"``. Nothing else can be read, nor anything whose name begins with a dot.
        listen: Where to listen, an IP address and a port: UDP for QUIC and TCP for HTTP, at the same port; 0 for any.
        only: Serves over one of the two protocols only.
        identity: A file for the server's self-signed certificate and its key, so that addresses stay the same after a
            restart; it is written if it does not exist.
        certificate, key: PEM files of a certificate from an authority and its key, instead of ``identity``.
        tokens: Clients must send one of these tokens: strings, or a file with one per line (``pathlib.Path``).
            Without tokens, everyone who reaches the address can read the files.
        plain_http: Whether to serve HTTP without TLS; by default not if tokens are required and other machines can
            reach the address.
        cors: The origin of web pages that may read the files over HTTP; ``"*"`` for all.
        metrics: An IP address and a port for an endpoint with the numbers of clients, requests and bytes in
            Prometheus format (:attr:`Server.metrics`).
        hash: Whether to read every file at startup and put its BLAKE3 hash into its address: clients then verify
            every range and need not trust the server.
        rate: The maximum rate per client machine, in bytes per second.
        rate_of_all: The maximum total rate, in bytes per second.
        clients: The maximum number of connected clients, for each of the two protocols.
        files: The maximum number of open files per client.
        requests: The maximum number of concurrent requests per client; further requests wait.
        in_flight: The maximum number of bytes in transit to a client.
        idle_timeout: Timeout in seconds for a client that neither sends nor receives.
        log: A function that is called with each finished request (:class:`Access`), in a thread of the server.

    Raises:
        UsageError: there are no files to serve (``net/serve``), the address cannot be bound (``net/listen``), the key
            or a token is not valid (``net/identity``, ``net/token``), or an option has no effect.
    """
    if (certificate is None) != (key is None):
        raise TypeError("certificate and key must be passed together")
    if identity is not None and certificate is not None:
        raise TypeError("pass either certificate and key, or identity, not both")
    if isinstance(tokens, str):
        raise TypeError("tokens must be a list of texts, or a pathlib.Path of a file with one token per line")
    is_file = isinstance(tokens, os.PathLike)
    how = {
        "listen": listen,
        "only": only,
        "identity": identity,
        "certificate": certificate,
        "key": key,
        "tokens": None if tokens is None or is_file else list(tokens),  # type: ignore[arg-type]
        "token_file": tokens if is_file else None,
        "plain_http": plain_http,
        "cors": cors,
        "metrics": metrics,
        "hash": hash,
        "rate": rate,
        "rate_of_all": rate_of_all,
        "clients": clients,
        "files": files,
        "requests": requests,
        "in_flight": in_flight,
        "idle_timeout": float(idle_timeout),
    }
    on_request = None if log is None else _telling(log)
    one = isinstance(paths, (str, os.PathLike))
    return Server(_holdall.Server([paths] if one else list(paths), how, on_request))  # type: ignore[arg-type]


def _telling(log: Callable[[Access], object]) -> Callable[..., None]:
    def tell(*access: Any) -> None:
        log(Access(*access))

    return tell


class Server:
    """A server of files, until it is closed: a context manager."""

    __slots__ = ("_native", "_ended", "address", "sha256", "metrics", "__weakref__")

    #: The host and port that the server listens on.
    address: str
    #: SHA-256 of its certificate, in hex, which addresses end with; ``None`` for a certificate from an authority.
    sha256: str | None
    #: The address of the metrics endpoint, ``http://…``; ``None`` if metrics are not served.
    metrics: str | None

    def __init__(self, native: _holdall.Server) -> None:
        self._native = native
        self._ended = threading.Event()
        self.address, self.sha256, self.metrics = native.head()

    @property
    def files(self) -> dict[str, int]:
        """Returns the files that are served now: their lengths in bytes, by name."""
        return dict(self._native.files())

    def url(
        self, name: str | None = None, *, http: bool = False, https: bool = False, token: str | None = None
    ) -> str:
        """Returns the address of a file: ``holdall://…``, ``http://…`` or ``https://…``.

        Args:
            name: Its name, as in :attr:`files`; not needed if only one file is served.
            http: Whether to return the address for HTTP clients, which send their token in a header.
            https: Whether to return the address for HTTP over TLS.
            token: A token to include in the address. Everyone who has the address then has the token.

        Raises:
            UsageError: several files are served and no name is given, or the file is not served over this protocol.
        """
        if name is None:
            files = list(self.files)
            if len(files) != 1:
                raise UsageError(f"{len(files)} files are served; name one of them", code="python/option", kind="misuse")
            name = files[0]
        scheme = "https" if https else "http" if http else "holdall"
        url = self._native.url(name, scheme)
        if url is None:
            over = {"holdall": "QUIC", "http": "HTTP in plain text", "https": "HTTP over TLS"}[scheme]
            raise UsageError(f"no files are served over {over}", code="python/option", kind="misuse")
        if token is None:
            return url
        if scheme != "holdall":
            raise TypeError("addresses of HTTP have no token: it goes into the header Authorization")
        return url.replace("://", f"://{token}@", 1)

    @property
    def clients(self) -> int:
        """Returns the number of clients that are connected over QUIC."""
        return self._native.clients()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until another thread closes the server, or until the timeout (in seconds); returns whether it is
        closed. Ctrl-C ends the wait."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Stops accepting requests and shuts down. Waits up to ``timeout`` seconds for responses in progress."""
        self._native.close(float(timeout))
        self._ended.set()

    @property
    def closed(self) -> bool:
        """Whether the server has shut down."""
        return self._native.closed

    def __enter__(self) -> Server:
        self._native.clients()  # Raises if it has ended.
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<holdall.Server at {self.address}{', closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError("a server cannot be pickled; its addresses are texts")
