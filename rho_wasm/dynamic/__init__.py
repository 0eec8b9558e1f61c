"""Agent-written tools: artifacts, generations that switch at once, strikes against what crashes, and their store."""

from __future__ import annotations
