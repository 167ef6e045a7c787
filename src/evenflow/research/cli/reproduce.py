"""`evenflow reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evenflow.research.experiment import Experiment, PointResult
    from evenflow.research.sweep import WorkItem
    from evenflow.research.sweep_folder import SweepFolder
    from evenflow.research.sweep_report import ReportSection


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
    from evenflow.research.experiment import point_name
    from evenflow.research.experiments.registry import EXPERIMENTS, find_experiments
    from evenflow.research.points import SCALES
    from evenflow.research.sweep_folder import SweepFolder
    from evenflow.research.sweep_report import write_report, write_section

    if list_:
        _print_list(find_experiments(ids) if ids else list(EXPERIMENTS.values()), json)
        return
    if not ids:
        raise InputError("name experiments, or all; evenflow reproduce --list shows them")
    chosen = find_experiments(ids)
    size = next((known for known in SCALES if known == scale), None)
    if size is None:
        raise InputError(f"--scale must be one of {', '.join(SCALES)}; got {scale}")
    _require_matplotlib()
    with SweepFolder(out, chosen).locked() as folder:
        grids = {e.id: [point_name(point) for point in e.points(size)] for e in chosen}
        done = {e.id: folder.finished_points(e.id) for e in chosen}
        if not resume and any(done.values()):
            count = sum(map(len, done.values()))
            raise InputError(
                f"--out {out}: holds {count} finished points of these experiments; "
                "continue with --resume, or choose another folder"
            )
        work = [(id_, p) for id_, points in grids.items() for p in points if p not in done[id_]]
        failed = _run_sweep(work, sum(map(len, grids.values())), folder, master) if work else []
        sections = []
        for e in chosen:
            known = folder.finished_points(e.id)
            if all(point in known for point in grids[e.id]):
                folder.merge_files(e.id)
                sections.append(write_section(e, [known[point] for point in grids[e.id]], out))
        write_report(sections, size, out)
    if json:
        print_json(_as_json(sections, scale, out, len(work), failed))
    else:
        _print_sections(sections, out)
    if failed:
        _report_failed(failed, out)
        raise typer.Exit(1)


def _require_matplotlib() -> None:
    from importlib.util import find_spec

    from evenflow.errors import InputError

    if find_spec("matplotlib") is None:
        raise InputError("figures need matplotlib; install it with pip install 'evenflow[figures]'")


def _run_sweep(
    work: "list[WorkItem]", total: int, folder: "SweepFolder", master: str
) -> "list[PointResult]":
    """Measure the points and write them to the folder; return those that failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from evenflow.cli.output import print_error, quiet_stdout
    from evenflow.research.sweep import sweep_on_master

    failed: list[PointResult] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with quiet_stdout(), Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("points", total=total, completed=total - len(work))

        def save(results: "list[PointResult]") -> None:
            folder.append_results(results)
            failed.extend(result for result in results if result.error)
            progress.update(task, advance=len(results), description=results[-1].experiment)

        try:
            sweep_on_master(master, work, save)
        except KeyboardInterrupt:
            progress.stop()
            print_error(
                f"stopped; finished points are in {folder.folder}; "
                "continue with the same command and --resume"
            )
            raise typer.Exit(130) from None
    return failed


def _report_failed(failed: "list[PointResult]", out: Path) -> None:
    from evenflow.cli.output import print_error

    first = failed[0]
    print_error(
        f"{len(failed)} points failed, the others are in {out}; first {first.experiment} "
        f"{first.point}: {first.error.strip().splitlines()[-1]}"
    )


def _as_json(
    sections: "list[ReportSection]", scale: str, out: Path, ran: int, failed: "list[PointResult]"
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "scale": scale,
        "out": str(out),
        "points_run": ran - len(failed),
        "points_kept": sum(section.point_count for section in sections),
        "points_failed": len(failed),
        "report": [str(out / "report.html"), str(out / "report.md")],
        "experiments": [
            {
                "id": section.experiment.id,
                "paper": section.experiment.paper,
                "title": section.experiment.title,
                "points": section.point_count,
                "rows": section.row_count,
                "cpu_seconds": section.cpu_seconds,
                "results": str(out / f"{section.experiment.id}.parquet"),
                "figures": [str(out / name) for name in section.figure_files],
                "claims": [{**asdict(c), "verdict": c.verdict} for c in section.claims],
            }
            for section in sections
        ],
    }


def _print_sections(sections: "list[ReportSection]", out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from evenflow.research.decide_claims import count_verdicts

    table = Table("experiment", "points", "CPU seconds", "claims: hold, do not, not decided")
    for section in sections:
        counts = count_verdicts(section.claims).values()
        table.add_row(
            section.experiment.id,
            f"{section.point_count:,}",
            f"{section.cpu_seconds:,.1f}",
            ", ".join(map(str, counts)),
        )
    console = Console()
    console.print(table)
    console.print(f"{out / 'report.html'}, {out / 'report.md'}", soft_wrap=True)


def _print_list(chosen: "list[Experiment]", json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from evenflow.cli.output import print_json
    from evenflow.research.points import SCALES

    if json:
        print_json(
            {
                "experiments": [
                    {
                        "id": e.id,
                        "paper": e.paper,
                        "title": e.title,
                        "shows": e.shows,
                        "cost": e.cost_note,
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
        table.add_row(e.id, e.shows, counts, e.cost_note)
    Console().print(table)
