"""The server that ``fixtures/weather.c`` asks, on a free port of this machine, and what names that port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rho_wasm.resources import fixture

__all__ = ["PORT", "WeatherServer", "weather_server"]

PORT = "8321"
"""What the sources and the policy say. Tests put a free one in its place."""


class WeatherServer:
    """``asked`` are the paths that were asked for so far."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    def here(self, text: str) -> str:
        """``text`` for this server."""
        assert PORT in text
        return text.replace(PORT, str(self.port))

    def fixture(self, name: str) -> str:
        """The text of a fixture, for this server."""
        return self.here(fixture(name).read_text(encoding="utf-8"))


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, told: WeatherServer, *args: Any, **options: Any) -> None:
        self._told = told
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._told.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args: Any) -> None:
        """Nothing: tests have no console."""


@contextmanager
def weather_server() -> Iterator[WeatherServer]:
    folder = str(fixture("data/weather/Oslo.json").parent)

    def handle(*args: Any) -> SimpleHTTPRequestHandler:
        return _Handler(told, *args, directory=folder)

    with ThreadingHTTPServer(("127.0.0.1", 0), handle) as server:
        told = WeatherServer(server.server_port)
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()
