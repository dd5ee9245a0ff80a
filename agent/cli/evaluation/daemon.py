"""`kernelwright daemon`: the evaluators that `evaluate` keeps warm, shown and stopped."""

from __future__ import annotations

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import print_json, print_table
from kernelwright.agent.cli.terminal.failures import say

app = typer.Typer(no_args_is_help=True, help="Show and stop the evaluators that `evaluate` keeps warm.")


@app.command("list", hidden=True)
@app.command("show")
def show_daemons(json: options.Json = False) -> None:
    """Show this user's daemons: what they run, and since when they are idle."""
    from kernelwright.evaluator import running_daemons

    found = running_daemons()
    if json:
        print_json([daemon.model_dump(exclude={"kind"}) for daemon in found])
    elif found:
        rows = [
            (str(one.pid), str(one.running), str(one.evaluated), f"{one.idle_s:.0f} s", one.cache)
            for one in found
        ]
        print_table(">process >running >evaluated >idle cache", rows)
    else:
        say("no daemon runs; `kernelwright evaluate` starts one")


@app.command("stop")
@app.command("rm", hidden=True)
def stop() -> None:
    """Stop this user's daemons, and cancel what they run."""
    from kernelwright.evaluator import stop_daemons

    stopped = stop_daemons()
    say(f"stopped {', '.join(f'process {one.pid}' for one in stopped)}" if stopped else "no daemon ran")
