"""`kernelwright cluster`: the nodes of a Ray cluster, and whether they may evaluate."""

from __future__ import annotations

import typer

from kernelwright.agent.cli.terminal import options
from kernelwright.agent.cli.terminal.console import print_json, print_table
from kernelwright.agent.cli.terminal.failures import ExitCode, did_pass, say

app = typer.Typer(no_args_is_help=True, help="Look at a Ray cluster that evaluates with `--engine ray`.")


@app.command("check")
@options.with_settings("address", "insecure_cluster", "evaluation.device", "evaluation.sandbox")
def check(given: options.Given, json: options.Json = False) -> None:
    """Ask every node for its device, versions and sandbox, and say which may evaluate.

    Exit status 1 means that at least one node may not, 3 that none may.
    """
    from kernelwright.agent.evaluation.cluster.cluster_check import check_nodes

    settings = given.run_settings()
    found = check_nodes(settings.address, settings.evaluation, allows_open=settings.insecure_cluster)
    if json:
        print_json(found)
    else:
        rows = [
            (
                *(one.address, one.device or "-", str(one.at_once), str(one.cores)),
                *(one.torch, one.driver or "-", one.sandbox, one.why or "yes"),
            )
            for one in found
        ]
        print_table("node device >at_once >cores torch driver sandbox evaluates", rows)
    fit = sum(not one.why for one in found)
    if not fit:
        say("no node of the cluster may evaluate")
        raise typer.Exit(ExitCode.MACHINE)
    raise did_pass(fit == len(found))
