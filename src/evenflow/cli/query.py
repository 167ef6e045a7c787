"""`evenflow query`: run a continuous query over files, without Spark."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import JsonOption
from evenflow.cli.output import print_json, print_rows
from evenflow.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PRINTED_ROWS = 50


def query_command(
    sql: Annotated[str, typer.Argument(help="A SELECT in Spark SQL.")],
    stream: Annotated[list[str], typer.Option(help="A stream, NAME=FILE. Repeat for others.")],
    time: Annotated[
        list[str], typer.Option(help="Event-time column; NAME=COLUMN for one stream of several.")
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="A reference table, NAME=FILE. Repeat for others.")
    ] = None,
    watermark: Annotated[str, typer.Option(help="How late rows may arrive.")] = "0 seconds",
    batches: Annotated[int, typer.Option(min=1, help="Batches that the rows are cut into.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Workers to split keys over.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the results: .csv or .parquet.")] = None,
    json: JsonOption = False,
) -> None:
    """Try a continuous query on files: print what a run over these rows would emit."""
    from evenflow.cli.table_files import check_writable, write_tables
    from evenflow.sql import QueryFailed
    from evenflow.sql.local import run_local

    streams, tables = _named(stream, "--stream"), _named(table or [], "--table")
    inputs = tuple(map(Path, (*streams.values(), *tables.values())))
    check_writable(out, inputs=inputs)
    try:
        result = run_local(
            sql,
            {name: _read(path) for name, path in streams.items()},
            time=_times(time, streams),
            watermark=watermark,
            tables={name: _read(path) for name, path in tables.items()},
            batches=batches,
            workers=workers,
        )
    except QueryFailed as failure:
        raise InputError(f"the query failed on a row: {failure}") from None
    if out is not None:
        _check_csv(result, out)
        write_tables({out: result})
    if json:
        print_json({"columns": _columns(result), "rows": _plain_rows(result)})
    elif out is None:
        _print_table(result)


def _named(given: list[str], option: str) -> dict[str, str]:
    named: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option} {text!r}: write NAME=FILE")
        if name in named:
            raise InputError(f"{option} {name!r} is given twice; keep one")
        named[name] = value
    return named


def _times(given: list[str], streams: dict[str, str]) -> dict[str, str]:
    """Return the event-time column of each stream."""
    common = [text for text in given if "=" not in text]
    if len(common) > 1:
        raise InputError(f"--time is {common[0]!r} and {common[1]!r}; write NAME=COLUMN")
    named = _named([text for text in given if "=" in text], "--time")
    if unknown := sorted(named.keys() - streams.keys()):
        raise InputError(f"--time names {unknown[0]!r}; streams: {', '.join(streams)}")
    return {**(dict.fromkeys(streams, common[0]) if common else {}), **named}


def _read(path: str) -> "pa.Table":
    """Read a file; times in CSV and JSON are instants in UTC, as Spark reads them."""
    import pyarrow as pa

    from evenflow.cli.table_files import read_whole_table

    table = read_whole_table(Path(path), may_be_empty=True)
    if not path.endswith(".parquet"):
        for index, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                instants = table.column(index).cast(pa.timestamp("us", "UTC"), safe=False)
                table = table.set_column(index, field.name, instants)
    return table


def _check_csv(result: "pa.Table", out: Path) -> None:
    import pyarrow as pa

    for field in result.schema:
        if out.suffix == ".csv" and pa.types.is_nested(field.type):
            raise InputError(
                f"{out}: CSV cannot hold column {field.name!r} of type {field.type}; select its "
                "fields, or write .parquet"
            )


def _columns(result: "pa.Table") -> dict[str, str]:
    from evenflow.sql.types import spark_name

    return {field.name: spark_name(field.type) for field in result.schema}


def _plain_rows(result: "pa.Table") -> list[dict[str, Any]]:
    """Return rows of JSON values: NaN, times, decimals and bytes as text."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, float) and value - value != 0:
            return str(value)
        return value if value is None or isinstance(value, bool | int | float | str) else str(value)

    return [plain(row) for row in result.to_pylist()]


def _print_table(result: "pa.Table") -> None:
    shown = _plain_rows(result.slice(0, MAX_PRINTED_ROWS))
    rows = [tuple(_cell(value) for value in row.values()) for row in shown]
    numbers = [at for at, cell in enumerate(shown[0].values()) if _is_number(cell)] if shown else []
    print_rows(result.column_names, rows, numbers)
    more = "" if len(result) == len(shown) else f", first {len(shown)} shown; --out writes all"
    typer.echo(f"{len(result):,} rows{more}", err=True)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)
