"""`evenflow tenants`: what each tenant uses beside its limits."""

from collections.abc import Callable
from typing import Any

import typer

from evenflow.cli.find_run import served_run
from evenflow.cli.options import DEFAULT_URL, JsonOption, RunOption, UrlOption
from evenflow.cli.output import format_bytes, print_items, print_json
from evenflow.display import printable


def _of(used: str, limit: str | None) -> str:
    return used if limit is None else f"{used} of {limit}"


def _count(tenant: dict[str, Any], name: str) -> str:
    most = tenant[f"max_{name}"]
    return _of(f"{tenant[name]:,}", None if most is None else f"{most:,}")


def _size(tenant: dict[str, Any], name: str) -> str:
    most = tenant[f"max_{name}"]
    return _of(format_bytes(tenant[name]), None if most is None else format_bytes(most))


def _cpu(tenant: dict[str, Any]) -> str:
    most = tenant["max_cpu_share"]
    return _of(f"{tenant['cpu_share']:.1%}", None if most is None else f"{most:.0%}")


def _columns(tenants: list[dict[str, Any]]) -> dict[str, Callable[[Any], str]]:
    """Return what is worth a column: what most have none of would only make it wide."""
    columns: dict[str, Callable[[Any], str]] = {
        "tenant": lambda tenant: tenant["tenant"],
        "queries": lambda tenant: _count(tenant, "queries"),
        "CPU": _cpu,
        "state": lambda tenant: _size(tenant, "state_bytes"),
        "results": lambda tenant: _size(tenant, "result_bytes"),
    }
    if any(tenant["subscriptions"] or tenant["max_subscriptions"] for tenant in tenants):
        columns["subscriptions"] = lambda tenant: _count(tenant, "subscriptions")
    if any(tenant["waiting_bytes"] for tenant in tenants):
        columns["waiting"] = lambda tenant: _size(tenant, "waiting_bytes")
    if len({tenant["priority"] for tenant in tenants}) > 1:
        columns["priority"] = lambda tenant: tenant["priority"]
    return columns


def tenants_command(
    run: RunOption = None, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """List tenants: what their queries use, their limits, and which are slowed and why.

    CPU time and results are those of the last batch.
    """
    tenants = served_run(run, url).get("tenants")
    if json:
        print_json({"tenants": tenants})
    elif not tenants:
        typer.echo("no tenants; declare them in the specification, or submit with a token of one")
    else:
        columns = _columns(tenants)
        numbers = [at for at, name in enumerate(columns) if name not in ("tenant", "priority")]
        print_items(tenants, columns, numbers=numbers)
        for tenant in tenants:
            for name, reason in tenant["slowed"].items():
                typer.echo(printable(f"slowed {name}: {reason}"))
            if tenant["quarantined"]:
                typer.echo(printable(f"quarantined: {', '.join(tenant['quarantined'])}"))
