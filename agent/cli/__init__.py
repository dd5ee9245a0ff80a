"""The `kernelwright` command: one file a command, each of which parses, wires and prints."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from kernelwright.agent.cli.app import app
    from kernelwright.agent.cli.terminal.console import speak_ascii_where_needed

    speak_ascii_where_needed()
    app(prog_name="kernelwright")
