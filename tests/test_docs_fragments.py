"""Checks what the docs show but no test runs: specifications, command lines and Python calls."""

import ast
import inspect
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml

import evenflow
from evenflow.cli.app import app
from evenflow.spec import load_spec

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What a fragment is part of: sections that it has replace these.
BASE = """
workers: 8
checkpoint: runs/flow
sources:
  trades:
    format: parquet
    path: incoming
    schema: ts TIMESTAMP, symbol STRING, price DOUBLE, qty BIGINT
    time: ts
    watermark: 10 seconds
queries:
  jumps: SELECT ts, symbol FROM trades
"""
OBJECTS = {"flow": evenflow.Flow, "run": evenflow.Run}


def fences(language: str) -> list[Any]:
    return [
        pytest.param(found[2], id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, found in enumerate(FENCE.finditer(page.read_text()))
        if found[1] == language
    ]


def merge(base: Any, part: dict[str, Any], depth: int) -> dict[str, Any]:
    """Merge down to the entries of sections; deeper only what has no `format` of its own."""
    merged = dict(base)
    for name, value in part.items():
        old = merged.get(name)
        whole = depth == 2 and ("format" in value if isinstance(value, dict) else True)
        nested = isinstance(old, dict) and isinstance(value, dict) and not whole
        merged[name] = merge(old, value, depth + 1) if nested else value
    return merged


def is_whole(part: dict[str, Any]) -> bool:
    return {"workers", "sources", "queries"} <= set(part)


def specifications() -> Iterator[Any]:
    """Yield each with what it is part of: the first whole one of its page, or BASE."""
    for page in PAGES:
        base = BASE
        for number, found in enumerate(FENCE.finditer(page.read_text())):
            if found[1] == "yaml":
                yield pytest.param(base, found[2], id=f"{page.relative_to(ROOT)}-{number}")
                base = found[2] if is_whole(yaml.safe_load(found[2])) else base


SPECIFICATIONS = list(specifications())


@pytest.mark.parametrize(("base", "text"), SPECIFICATIONS)
def test_specifications_are_valid(
    base: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "https://example.org" if name.endswith("URL") else f"{name} value")
    for folder in ("incoming/trades", "archive/trades"):
        (tmp_path / folder).mkdir(parents=True)
    part: dict[str, Any] = yaml.safe_load(text)
    whole = part if is_whole(part) else merge(yaml.safe_load(base), part, 1)
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(whole))
    assert load_spec(spec).spec.workers > 0


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for found in FENCE.finditer(page.read_text()):
            pending = ""
            for line in found[2].splitlines() if not found[1] else ():
                pending += ("\n" if pending else "") + line
                if pending.count('"') % 2:
                    continue
                if re.match(r"(\$ |\S*/bin/)?evenflow ", pending):
                    yield f"{page.relative_to(ROOT)}", pending.removeprefix("$ ")
                pending = ""


LINES = list(command_lines())


@pytest.mark.parametrize(
    "line", [pytest.param(line, id=f"{at}: {line[:60]}") for at, line in LINES]
)
def test_command_lines_are_understood(line: str) -> None:
    text = re.sub(r"\[([^]]*)\]", r"\1", line)  # what may be left out
    words = shlex.split(text, comments=True)
    words = words[1 : words.index("|")] if "|" in words else words[1:]
    command: Any = typer.main.get_command(app)
    context = click.Context(command, info_name="evenflow")
    while hasattr(command, "commands"):
        _, command, words = command.resolve_command(context, words)
        if hasattr(command, "commands"):
            context = click.Context(command, parent=context)
    assert command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("code", fences("py"))
def test_python_calls_fit_what_is_called(code: str) -> None:
    tree = ast.parse(textwrap.dedent(code))
    imported = {
        (each.asname or each.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            assert name not in sys.stdlib_module_names or name in imported, f"{name} not imported"
            owner: Any = evenflow if name == "evenflow" else OBJECTS.get(name)
            assert owner is None or hasattr(owner, node.attr), f"there is no {name}.{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            known = OBJECTS.get(called.value.id) if isinstance(called.value, ast.Name) else None
            if known is not None:
                signature = inspect.signature(getattr(known, called.attr))
                named = {each.arg: None for each in node.keywords if each.arg}
                signature.bind(None, *node.args, **named)


def test_there_is_something_to_check() -> None:
    assert len(SPECIFICATIONS) > 15
    assert len(LINES) > 50
    assert len(fences("py")) > 10
