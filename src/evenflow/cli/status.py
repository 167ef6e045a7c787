"""`evenflow status` and `evenflow list`: how runs are, running or stopped."""

import time
from pathlib import PurePath
from typing import Annotated, Any

import typer

from evenflow.cli.find_run import FoundRun, find_run
from evenflow.cli.known_runs import known_runs
from evenflow.cli.options import DEFAULT_URL, JsonOption, UrlOption
from evenflow.cli.output import Columns, print_items, print_json, print_rows
from evenflow.errors import InputError

RunArgument = Annotated[
    str | None,
    typer.Argument(help="The run: its specification, checkpoint or address. Default: --url."),
]
_LIST_COLUMNS: Columns = {
    "run": lambda run: run["name"],
    "state": lambda run: run["state"],
    "batches": lambda run: "-" if run["batches"] is None else f"{run['batches']:,}",
    "page": lambda run: run["url"] or "",
    "checkpoint": lambda run: run["checkpoint"] or "",
}
_PAGES = {"starting": "not served yet"}


def status_command(
    run: RunArgument = None, url: UrlOption = DEFAULT_URL, json: JsonOption = False
) -> None:
    """Show how a run is: running or stopped, its batches, queries and problems.

    A stopped run is read from its checkpoint, without Spark.
    """
    status = run_status(find_run(run, url))
    if json:
        print_json(status)
    else:
        _print_status(status)


def list_command(
    url: Annotated[
        str | None, typer.Option(help="Address of a service: list only its run.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the runs that were started on this machine and whose checkpoint exists."""
    runs = _known_statuses() if url is None else [_served_status(url)]
    if json:
        print_json({"runs": runs})
    elif runs:
        print_items(runs, _LIST_COLUMNS, numbers=(2,))
    else:
        typer.echo("no runs yet; start one with: evenflow run SPEC")


def _known_statuses() -> list[dict[str, Any]]:
    statuses = []
    for known in known_runs():
        try:
            status = run_status(find_run(known.checkpoint, DEFAULT_URL))
        except (InputError, OSError):  # the checkpoint was deleted or cannot be read
            continue
        statuses.append({"name": known.name, "spec": known.spec, **status})
    return statuses


def _served_status(url: str) -> dict[str, Any]:
    status = run_status(find_run(url, url))
    return {"name": PurePath(status["checkpoint"]).name, "spec": None, **status}


def run_status(found: FoundRun) -> dict[str, Any]:
    """Return the state of a run: as its service tells it, or as its checkpoint does."""
    note = found.note
    status: dict[str, Any] = {
        "state": "running",
        "checkpoint": None if found.store is None else found.store.uri,
        "url": None,
        "pid": None if note is None else note.pid,
        "host": None if note is None else note.host,
        "started_at": None if note is None else note.started_at,
        "ended_at": None if note is None else note.ended_at,
        "batches": None,
        "queries": None,
        "quarantined": {},
        "late": {},
        "set_aside": {},
        "sinks_behind": {},
        "summary": None,
    }
    if found.store is not None:
        status |= _stored_status(found)
    if found.client is None:
        return status
    summary, queries = found.client.get("summary"), found.client.get("queries")
    batches = status["batches"]
    if batches is None and summary["batch"] is not None:
        batches = summary["batch"] + 1
    return status | {
        "state": "stopped" if summary["status"] == "ended" else summary["status"],
        "checkpoint": found.client.get("run")["checkpoint"],
        "url": found.client.url,
        "batches": batches,
        "queries": summary["queries"],
        "quarantined": {q["name"]: q["quarantined"] for q in queries if q["quarantined"]},
        "late": {q["name"]: q["late"] for q in queries if q["late"]},
        "set_aside": {
            s["name"]: {"rows": s["set_aside"], "ahead": s["ahead"]}
            for s in found.client.get("streams")
            if s["set_aside"]
        },
        "summary": summary,
    }


def _stored_status(found: FoundRun) -> dict[str, Any]:
    """Return what the checkpoint says."""
    from evenflow.spark.driver.sinks import delivery_note
    from evenflow.spark.protocol.ledger import Ledger
    from evenflow.spark.protocol.stored_results import StoredResults

    store, note = found.require_store(), found.note
    head = StoredResults(store).head()
    names = Ledger(store).registry(head.registry_version).by_uid
    running = note is not None and note.is_running
    starting = running and note is not None and note.first_batch >= head.batch
    unknown = note is not None and not note.is_local and note.ended_at is None
    behind = {}
    for sink in store.list_names("sinks"):
        for query in store.list_names(f"sinks/{sink}"):
            noted = delivery_note(store, f"sinks/{sink}/{query}")
            if noted is not None and noted["next"] < head.batch:
                behind[f"{sink}/{query}"] = head.batch - noted["next"]
    state = "running" if running else "unknown" if unknown else "stopped"
    return {
        "state": "starting" if starting else state,
        "batches": head.batch,
        "queries": len(names),
        "quarantined": {names[u].name: why for u, why in head.quarantined.items() if u in names},
        "late": {names[u].name: rows for u, rows in head.late.items() if u in names and rows},
        "set_aside": {
            source: {"rows": rows, "ahead": head.ahead.get(source, 0)}
            for source, rows in head.poison.items()
            if rows
        },
        "sinks_behind": behind,
    }


def _print_status(status: dict[str, Any]) -> None:
    rows = [
        ("state", _state_line(status)),
        ("page", status["url"] or _PAGES.get(status["state"], "not served")),
    ]
    rows += [("checkpoint", status["checkpoint"])] if status["checkpoint"] else []
    rows += [("batches", f"{status['batches'] or 0:,} committed")]
    rows += [("queries", f"{status['queries'] or 0:,}, {len(status['quarantined']):,} quarantined")]
    if summary := status["summary"]:
        rows += [
            ("throughput", f"{summary['rows_per_second']:,.0f} rows/s in the last batch"),
            ("batch time", f"{summary['seconds']:.2f} s"),
            ("busiest worker", f"{summary['imbalance']:.2f} times the mean of the active workers "
             f"(bound {summary['bound']:.2f})"),
            ("workers", _workers_line(summary)),
            ("alerts", f"{summary.get('alerts', 0):,} firing"),
            ("plan changes", f"{summary['plan_changes']:,} with {summary['moves']:,} moves"),
        ]  # fmt: skip
    rows += [(f"late rows of {name}", f"{count:,}") for name, count in status["late"].items()]
    rows += [
        (f"set aside of {name}", f"{found['rows']:,} rows: {found['rows'] - found['ahead']:,} "
         f"without a valid event time, {found['ahead']:,} ahead of the clock")
        for name, found in status["set_aside"].items()
    ]  # fmt: skip
    rows += [(f"quarantined {name}", why) for name, why in status["quarantined"].items()]
    rows += [
        (
            f"sink {name}",
            f"{count:,} batch{'' if count == 1 else 'es'} behind; the next run delivers them",
        )
        for name, count in status["sinks_behind"].items()
        if status["state"] == "stopped"
    ]
    print_rows(("", ""), rows, show_heads=False)


def _workers_line(summary: dict[str, Any]) -> str:
    needed = summary.get("workers_needed")
    advice = "" if needed is None else f"; the load needs {needed} (`evenflow workers list`)"
    return f"{summary['active']} of {summary['workers']} active{advice}"


def _state_line(status: dict[str, Any]) -> str:
    line = str(status["state"])
    if line == "unknown":
        line += f": it ran on {status['host']}, which cannot be asked"
    elif line != "stopped" and status["pid"] is not None:
        line += f", process {status['pid']} on {status['host']}"
    when = status["ended_at"] if line == "stopped" else status["started_at"]
    if when is not None:
        line += f", {'since' if line == 'stopped' else 'started'} {_time(when)}"
    elif line == "stopped" and status["pid"] is not None:
        line += "; its process ended without saying so, for example by a kill"
    return line


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
