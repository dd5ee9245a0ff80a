"""The leaderboard as HTML files that need nothing else: no network, no server, nothing foreign that runs."""

from __future__ import annotations

from kernelwright.agent.leaderboard.html.page_writer import PageLimits, WrittenPages, write_pages

__all__ = ["PageLimits", "WrittenPages", "write_pages"]
