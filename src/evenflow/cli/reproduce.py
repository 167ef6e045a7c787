"""`evenflow reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evenflow.experiments.experiment import Experiment, Outcome
    from evenflow.experiments.report import Section
    from evenflow.experiments.results import Results
    from evenflow.spark.sweep import Work


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID ...|all]", help="Experiments; see --list."),
    ] = None,
    scale: Annotated[str, typer.Option(help="small, or paper for the papers' sizes.")] = "small",
    out: Annotated[Path, typer.Option(help="Folder for results, figures and report.")] = Path(
        "reproduction"
    ),
    master: Annotated[str, typer.Option(help="Spark master that runs the points.")] = "local[*]",
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the points that are finished in --out.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the experiments and what they cost.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Reproduce the papers' tables and figures, swept on Spark."""
    from evenflow.cli.output import print_json
    from evenflow.errors import InputError
    from evenflow.experiments import EXPERIMENTS, find
    from evenflow.experiments.experiment import SCALES, name_of
    from evenflow.experiments.report import write_report, written
    from evenflow.experiments.results import Results

    if list_:
        _print_list(find(ids) if ids else list(EXPERIMENTS.values()), json)
        return
    if not ids:
        raise InputError("name experiments, or all; evenflow reproduce --list shows them")
    chosen = find(ids)
    size = next((known for known in SCALES if known == scale), None)
    if size is None:
        raise InputError(f"--scale must be one of {', '.join(SCALES)}; got {scale}")
    _need_matplotlib()
    with Results(out).opened() as results:
        grids = {e.id: [name_of(point) for point in e.points(size)] for e in chosen}
        done = {e.id: results.finished(e.id) for e in chosen}
        if not resume and any(done.values()):
            kept = sum(map(len, done.values()))
            raise InputError(
                f"--out {out}: holds {kept} finished points of these experiments; "
                "go on from them with --resume, or name another folder"
            )
        work = [(id_, p) for id_, points in grids.items() for p in points if p not in done[id_]]
        failed = _swept(work, sum(map(len, grids.values())), results, master) if work else []
        sections = []
        for e in chosen:
            known = results.finished(e.id)
            if all(point in known for point in grids[e.id]):
                results.compact(e.id)
                sections.append(written(e, [known[point] for point in grids[e.id]], out))
        write_report(sections, size, out)
    if json:
        print_json(_as_json(sections, scale, out, len(work), failed))
    else:
        _print_sections(sections, out)
    if failed:
        _tell_failed(failed, out)
        raise typer.Exit(1)


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    from evenflow.errors import InputError

    if find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib; install it with pip install 'evenflow[figures]'")


def _swept(work: "list[Work]", total: int, results: "Results", master: str) -> "list[Outcome]":
    """Measure what is not finished; return the points that failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evenflow.cli.output import print_error, quiet_stdout
    from evenflow.spark.sweep import sweep_with

    failed: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with quiet_stdout(), Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("points", total=total, completed=total - len(work))

        def keep(outcomes: "list[Outcome]") -> None:
            results.append(outcomes)
            failed.extend(outcome for outcome in outcomes if outcome.error)
            progress.update(task, advance=len(outcomes), description=outcomes[-1].experiment)

        try:
            sweep_with(master, work, keep)
        except KeyboardInterrupt:
            progress.stop()
            print_error(
                f"stopped; finished points are kept in {results.folder}: "
                "go on with the same command and --resume"
            )
            raise typer.Exit(130) from None
    return failed


def _tell_failed(failed: "list[Outcome]", out: Path) -> None:
    from evenflow.cli.output import print_error

    first = failed[0]
    print_error(
        f"{len(failed)} points failed, the others are kept in {out}; first {first.experiment} "
        f"{first.point}: {first.error.strip().splitlines()[-1]}"
    )


def _as_json(
    sections: "list[Section]", scale: str, out: Path, ran: int, failed: "list[Outcome]"
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "scale": scale,
        "out": str(out),
        "points_run": ran - len(failed),
        "points_kept": sum(section.points for section in sections),
        "points_failed": len(failed),
        "report": [str(out / "report.html"), str(out / "report.md")],
        "experiments": [
            {
                "id": section.experiment.id,
                "paper": section.experiment.paper,
                "title": section.experiment.title,
                "points": section.points,
                "rows": section.rows,
                "cpu_seconds": section.cpu_seconds,
                "results": str(out / f"{section.experiment.id}.parquet"),
                "figures": [str(out / name) for name in section.pictures],
                "claims": [asdict(claim) for claim in section.claims],
            }
            for section in sections
        ],
    }


def _print_sections(sections: "list[Section]", out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("experiment", "points", "CPU seconds", "claims that hold")
    for section in sections:
        holding = sum(claim.holds for claim in section.claims)
        table.add_row(
            section.experiment.id,
            f"{section.points:,}",
            f"{section.cpu_seconds:,.1f}",
            f"{holding} of {len(section.claims)}",
        )
    console = Console()
    console.print(table)
    console.print(f"{out / 'report.html'}, {out / 'report.md'}", soft_wrap=True)


def _print_list(chosen: "list[Experiment]", json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from evenflow.cli.output import print_json
    from evenflow.experiments.experiment import SCALES

    if json:
        print_json(
            {
                "experiments": [
                    {
                        "id": e.id,
                        "paper": e.paper,
                        "title": e.title,
                        "shows": e.shows,
                        "cost": e.cost,
                        "points": {scale: len(e.points(scale)) for scale in SCALES},
                    }
                    for e in chosen
                ]
            }
        )
        return
    table = Table("id", "shows", "points (small, paper)", "cost (small)")
    for e in chosen:
        counts = ", ".join(f"{len(e.points(scale)):,}" for scale in SCALES)
        table.add_row(e.id, e.shows, counts, e.cost)
    Console().print(table)
