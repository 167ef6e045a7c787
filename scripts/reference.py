"""Write the generated parts of the docs: `python scripts/reference.py`; `--check` only compares.

docs/spec.md gets the fields of a specification from its models, docs/cli.md the commands,
docs/api.md the public classes.
"""

import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SELF = re.compile(r"^\((self|host)(: [^,)]*)?(, )?")
MODULES = re.compile(r"(collections\.abc|evenflow(\.[a-z_]+)+)\.")
BEGIN, END = "<!-- generated: make docs -->", "<!-- end of generated -->"


def main(check: bool) -> None:
    """Write, or tell what is out of date."""
    stale = [page for page, text in pages().items() if page.read_text(encoding="utf-8") != text]
    for page in stale:
        if not check:
            page.write_text(pages()[page], encoding="utf-8")
        print(f"{'out of date' if check else 'wrote'}: {page.relative_to(ROOT)}")
    if check and stale:
        sys.exit("run: make docs")


def pages() -> dict[Path, str]:
    """Return each page as it should be."""
    return {
        ROOT / "docs/spec.md": filled(ROOT / "docs/spec.md", spec_fields()),
        ROOT / "docs/cli.md": filled(ROOT / "docs/cli.md", commands()),
        ROOT / "docs/api.md": filled(ROOT / "docs/api.md", classes()),
    }


def filled(page: Path, generated: str) -> str:
    """Return a page with its generated part replaced."""
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n{generated.strip()}\n{END}{rest.partition(END)[2]}"


def spec_fields() -> str:
    """Describe every part of a specification in a table."""
    from evenflow.spec import models
    from evenflow.spec.datasets import DATASET_MODELS

    parts: list[tuple[str, Any]] = [
        ("The whole", models.Spec),
        ("`sources.NAME`", models.SourceSpec),
        ("`tables.NAME`", models.ReferenceTableSpec),
        ("`queries.NAME`", models.QuerySpec),
        ("`templates.NAME`", models.TemplateSpec),
        ("`templates.NAME.subscriptions`", models.SubscriptionsSpec),
        ("`operators.NAME`", models.OperatorSpec),
        ("`balancing`", models.BalancingSpec),
        ("`sinks.NAME`", models.SinkSpec),
        ("`spark`", models.SparkSpec),
        *(
            (f"`datasets.NAME` with `kind: {kind}`", model)
            for kind, model in DATASET_MODELS.items()
        ),
    ]
    return "\n\n".join(section(title, model) for title, model in parts)


def section(title: str, model: Any) -> str:
    """Describe one model."""
    lines = [f"### {title}", (model.__doc__ or "").strip().split("\n")[0], ""]
    lines += ["| field | default | what it is |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        said = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{field.alias or name}` | {default(field)} | {said} |")
    return "\n".join(lines)


def default(field: Any) -> str:
    """Show what a field is if it is left out."""
    if field.is_required():
        return "needed"
    value = None if field.default_factory is not None else field.default
    if value is None or value in ({}, (), ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def classes() -> str:
    """Describe the public classes: every method with its signature and what it does."""
    from evenflow import Balancing, Flow, Run

    return "\n\n".join(described_class(made) for made in (Flow, Run, Balancing))


def described_class(made: type) -> str:
    """Describe one class."""
    about = (inspect.getdoc(made) or "").replace("```python", "```py")  # shown, not run
    parts = [f"## `{made.__name__}`", about]
    for name, member in inspect.getmembers(made):
        is_property = isinstance(member, property)
        if name.startswith("_") or not (is_property or inspect.isroutine(member)):
            continue
        signature = "" if is_property else SELF.sub("(", str(inspect.signature(member)))
        signature = MODULES.sub("", signature)
        text = inspect.getdoc(member) or ""
        parts.append(f"**`{name}{signature}`** {text}")
    return "\n\n".join(parts)


def commands() -> str:
    """Describe the commands as `--help` does, narrow enough to read and the same everywhere."""
    os.environ["COLUMNS"] = "100"
    import typer

    from evenflow.cli.app import app

    return "\n\n".join(described("evenflow", typer.main.get_command(app)))


def described(path: str, command: Any) -> list[str]:
    """Describe a command and those below it."""
    import typer

    context = typer.Context(command, info_name=path)
    lines = [f"### {path}", (command.help or "").strip()]
    rows = [row for parameter in command.params if (row := option(parameter, context))]
    if rows:
        lines.append("\n".join(["| option | default | what it does |", "|---|---|---|", *rows]))
    found = ["\n\n".join(lines)]
    for name, below in sorted(getattr(command, "commands", {}).items()):
        found += described(f"{path} {name}", below)
    return found


def option(parameter: Any, context: Any) -> str | None:
    """Describe an argument or an option; those that every program has are left out."""
    names = [*parameter.opts, *parameter.secondary_opts]
    if {"--help", "--install-completion", "--show-completion"} & set(names):
        return None
    said = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"| `{(parameter.metavar or parameter.name).upper()}` | | {said} |"
    value = parameter.get_default(context)
    plain = value not in (None, False, "", ()) and not callable(value)
    shown = f"`{getattr(value, 'value', value)}`" if plain else ""
    shown = "needed" if parameter.required else shown
    return f"| `{'`, `'.join(names)}` | {shown} | {said} |"


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
