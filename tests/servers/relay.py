"""A stretch of network between a client and a server that a test can let hang."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.engine import make_url


class Relay:
    """Passes bytes on both ways; while it hangs everything is taken and nothing arrives."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._flowing = threading.Event()
        self._flowing.set()
        self._swallowing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where clients connect to, on 127.0.0.1."""
        port: int = self._listener.getsockname()[1]
        return port

    def hang(self) -> None:
        """Pass nothing on."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass on what was held back and what comes."""
        self._flowing.set()

    def swallow_answers(self) -> None:
        """Pass on what clients send, and drop every connection instead of the first answer."""
        self._swallowing.set()

    def pass_answers(self) -> None:
        """Pass on what servers send again, on new connections."""
        self._swallowing.clear()

    def close(self) -> None:
        """Drop every connection, and take no more."""
        self.flow()
        for opened in self._sockets:
            _end(opened)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while received := source.recv(65_536):
                self._flowing.wait()
                target.sendall(received)
            target.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while received := server.recv(65_536):
                self._flowing.wait()
                if self._swallowing.is_set():
                    _end(client)
                    _end(server)
                    return
                client.sendall(received)
            client.shutdown(socket.SHUT_WR)


def _end(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()


@contextmanager
def relayed(url: str) -> Iterator[tuple[str, Relay]]:
    """The URL of the same database by way of a relay, and the relay."""
    direct = make_url(url)
    relay = Relay(str(direct.host), direct.port or 5432)
    try:
        yield direct.set(host="127.0.0.1", port=relay.port).render_as_string(hide_password=False), relay
    finally:
        relay.close()
