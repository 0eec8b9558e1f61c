"""Events for several listeners, where a host tells one callback."""

from __future__ import annotations

from collections.abc import Callable

from rho_wasm.events import Event, OnEvent, emit

__all__ = ["EventFeed"]


class EventFeed:
    """An ``on_event`` that tells everybody who asked: ``Host.open(..., on_event=feed)``.

    Listeners are called in the order that they came in; one that raises is logged and costs the others nothing.
    """

    def __init__(self, *listeners: OnEvent) -> None:
        self._listeners: dict[object, OnEvent] = {object(): listener for listener in listeners}

    def __call__(self, event: Event) -> None:
        for listener in tuple(self._listeners.values()):
            emit(listener, event)

    def subscribe(self, listener: OnEvent) -> Callable[[], None]:
        """Adds ``listener``. Answers a function that takes it off again, and does nothing the second time."""
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe
