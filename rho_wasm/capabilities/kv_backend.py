"""Where what tools keep is kept: what a backend of ``kv.*`` does, and how much each tool has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from rho_wasm.errors import CapabilityError

__all__ = ["KvBackend", "KvCondition", "KvRoom"]

KvCondition: TypeAlias = bytes | Literal["absent"] | None
"""What must be there for a put to happen: that very value, nothing, or (None) whatever."""


@dataclass(frozen=True, slots=True)
class KvRoom:
    """How much a tool may keep: ``keys``, and ``bytes`` of its keys and values together."""

    keys: int
    bytes: int

    def check(self, *, keys: int, bytes: int) -> None:
        """Raises :class:`CapabilityError` (``quota``) where that much is more."""
        if keys > self.keys:
            raise CapabilityError("quota", f"the tool has {self.keys} keys already, which is all it may: delete some")
        if bytes > self.bytes:
            raise CapabilityError("quota", f"the tool would keep {bytes} bytes, over the {self.bytes} that it may")


class KvBackend(Protocol):
    """Where keys are kept. Called on the event loop in the call's own task, which may be cancelled at any await: a put
    or a delete has then happened as a whole or not at all.

    Every method raises :class:`CapabilityError` (``unavailable``) where the backend has a fault.
    """

    async def get(self, tool: str, key: str) -> bytes | None:
        """The value, or None."""

    async def put(
        self,
        tool: str,
        key: str,
        value: bytes,
        *,
        room: KvRoom,
        only_if: KvCondition = None,
        siblings: Sequence[str] = (),
    ) -> bool:
        """Whether it was stored, which is whether ``only_if`` held. Compared, counted and stored as one step, whoever
        else puts at the same time. Raises what :meth:`KvRoom.check` raises where it would grow beyond ``room``; what
        does not grow (an equally long value) is stored even where a room was made smaller meanwhile. ``siblings`` are
        the tools of the same artifact: a backend that bounds what all tools keep bounds what these keep together too
        (``quota``), or one module of many tools could leave no room to the others."""

    async def delete(self, tool: str, key: str) -> bool:
        """Whether there was such a key."""

    async def keys(self, tool: str, *, prefix: str, after: str, limit: int) -> Sequence[str]:
        """The first ``limit`` keys that begin with ``prefix`` and come after ``after``, in the order of UTF-8."""
