"""Writes the generated parts of docs/reference: `python scripts/generate_reference.py [--check]`.

spec.md gets the fields of a specification from its models, command-line.md the commands,
python.md the public classes and sql.md the functions. `--check` writes nothing and fails if a page
is out of date.
"""

import inspect
import os
import re
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs/reference"
SELF = re.compile(r"^\((self|host)(: [^,)]*)?(, )?")
MODULES = re.compile(r"(collections\.abc|evenflow(\.[a-z_]+)+)\.")
UNION = re.compile(r"Union\[ForwardRef\('DataFrame'\), (.*?), NoneType\]")
PLAIN_NAMES = {
    "'DataFrame'": "DataFrame",
    "pyspark.sql.dataframe.": "",
    "pyarrow.lib.": "pyarrow.",
    "typing.": "",
    "datetime.datetime": "datetime",
}
BEGIN, END = "<!-- generated: make docs -->", "<!-- end of generated -->"


def main(check: bool) -> None:
    """Write the pages, or list those that are out of date."""
    pages = {
        REFERENCE / "spec.md": spec_fields(),
        REFERENCE / "command-line.md": commands(),
        REFERENCE / "python.md": classes(),
        REFERENCE / "sql.md": functions(),
    }
    texts = {page: replace_generated(page, generated) for page, generated in pages.items()}
    stale = [page for page, text in texts.items() if page.read_text(encoding="utf-8") != text]
    for page in stale:
        if not check:
            page.write_text(texts[page], encoding="utf-8")
        print(f"{'out of date' if check else 'wrote'}: {page.relative_to(ROOT)}")
    if check and stale:
        sys.exit("run: make docs")


def replace_generated(page: Path, generated: str) -> str:
    """Return the text of a page with its generated part replaced."""
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n{generated.strip()}\n{END}{rest.partition(END)[2]}"


def functions() -> str:
    """Return the functions of the registry by topic; those of a kernel in italics."""
    import textwrap

    from evenflow.sql import translate
    from evenflow.sql.translate.registry import FUNCTIONS

    assert translate.__all__  # noqa: S101 - imported for its registered rules
    topics: dict[str, list[str]] = {}
    for name, entry in sorted(FUNCTIONS.items()):
        shown = f"*{name}*" if entry.route == "kernel" else f"`{name}`"
        topics.setdefault(entry.topic, []).append(shown)
    kernels = sum(entry.route == "kernel" for entry in FUNCTIONS.values())
    lines = [f"{len(FUNCTIONS)} functions, {kernels} of them computed by a kernel (*italics*)."]
    for topic, names in topics.items():
        text = f"**{topic[0].upper()}{topic[1:]}** ({len(names)}): {', '.join(names)}"
        lines += ["", *textwrap.wrap(text, 98, break_on_hyphens=False)]
    return "\n".join(lines)


def spec_fields() -> str:
    """Return a table of fields for each part of a specification."""
    from evenflow.spec import alerts, models, service_model, tenant_model
    from evenflow.spec.datasets import DATASET_MODELS
    from evenflow.spec.sink_model import SinkSpec

    parts: list[tuple[str, Any]] = [
        ("The whole", models.Spec),
        ("`sources.NAME`", models.SourceSpec),
        ("`tables.NAME`", models.ReferenceTableSpec),
        ("`queries.NAME`", models.QuerySpec),
        ("`templates.NAME`", models.TemplateSpec),
        ("`templates.NAME.subscriptions`", models.SubscriptionsSpec),
        ("`operators.NAME`", models.OperatorSpec),
        ("`functions.NAME`", models.FunctionSpec),
        ("`balancing`", models.BalancingSpec),
        ("`tenants.NAME`", tenant_model.TenantSpec),
        ("`sinks.NAME`", SinkSpec),
        ("`alerts`", alerts.AlertsSpec),
        ("`alerts.RULE`", alerts.AlertRuleSpec),
        ("`storage`", models.StorageSpec),
        ("`spark`", models.SparkSpec),
        ("`service`", service_model.ServiceSpec),
        ("`service.tokens.NAME`", service_model.TokenSpec),
        ("`service.tls`", service_model.TlsSpec),
        *(
            (f"`datasets.NAME` with `kind: {kind}`", model)
            for kind, model in DATASET_MODELS.items()
        ),
    ]
    return "\n\n".join(model_section(title, model) for title, model in parts)


def model_section(title: str, model: Any) -> str:
    """Return the table of fields of one model."""
    lines = [f"### {title}", (model.__doc__ or "").strip().split("\n")[0], ""]
    lines += ["| field | default | what it is |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        description = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{field.alias or name}` | {field_default(field)} | {description} |")
    return "\n".join(lines)


def field_default(field: Any) -> str:
    """Return the default of a field, or `needed`."""
    if field.is_required():
        return "needed"
    value = None if field.default_factory is not None else field.default
    if value is None or value in ({}, (), ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def classes() -> str:
    """Return the public classes with the signature and docstring of every method."""
    from evenflow import Balancing, Flow, Run, run_local

    doc, signature = inspect.getdoc(run_local) or "", str(inspect.signature(run_local))
    example = doc.find(">>>")
    parts = [f"## `run_local`\n\n`run_local{MODULES.sub('', signature)}`", doc[:example].strip()]
    return "\n\n".join([*(class_section(cls) for cls in (Flow, Run, Balancing)), *parts])


def class_section(cls: type) -> str:
    """Return the docstring and the public members of one class."""
    doc = (inspect.getdoc(cls) or "").replace("```python", "```py")  # tests run only `python`
    parts = [f"## `{cls.__name__}`", doc]
    for name, member in inspect.getmembers(cls):
        is_property = isinstance(member, property)
        if name.startswith("_") or not (is_property or inspect.isroutine(member)):
            continue
        signature = "" if is_property else SELF.sub("(", signature_text(member))
        text = inspect.getdoc(member) or ""
        parts.append(f"**`{name}{signature}`** {text}")
    return "\n\n".join(parts)


def signature_text(function: Any) -> str:
    """Return a signature as one would write it: names without modules, defaults that are short."""
    signature = inspect.signature(function)
    parameters = []
    for parameter in signature.parameters.values():
        kind, default = type(parameter.default), parameter.default
        if is_dataclass(kind) and default == kind():
            default = Verbatim(f"{kind.__name__}()")
        parameters.append(parameter.replace(default=default))
    text = MODULES.sub("", str(signature.replace(parameters=parameters)))
    text = UNION.sub(r"DataFrame | \1 | None", text)
    for given, shown in PLAIN_NAMES.items():
        text = text.replace(given, shown)
    return text


class Verbatim(str):
    """A default that is shown as it is."""

    def __repr__(self) -> str:
        return str(self)


def commands() -> str:
    """Return all commands with their options."""
    os.environ["COLUMNS"] = "100"
    import typer

    from evenflow.cli.app import app

    return "\n\n".join(command_sections("evenflow", typer.main.get_command(app)))


def command_sections(path: str, command: Any) -> list[str]:
    """Return the section of a command and of its subcommands."""
    import typer

    context = typer.Context(command, info_name=path)
    lines = [f"### {path}", (command.help or "").strip()]
    rows = [row for parameter in command.params if (row := parameter_row(parameter, context))]
    if rows:
        lines.append("\n".join(["| option | default | what it does |", "|---|---|---|", *rows]))
    sections = ["\n\n".join(lines)]
    for name, subcommand in sorted(getattr(command, "commands", {}).items()):
        sections += command_sections(f"{path} {name}", subcommand)
    return sections


def parameter_row(parameter: Any, context: Any) -> str | None:
    """Return the table row of an argument or option; None for those that every command has."""
    names = [*parameter.opts, *parameter.secondary_opts]
    if {"--help", "--install-completion", "--show-completion"} & set(names):
        return None
    description = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"| `{(parameter.metavar or parameter.name).upper()}` | | {description} |"
    value = parameter.get_default(context)
    plain = value not in (None, False, "", ()) and not callable(value)
    shown = f"`{getattr(value, 'value', value)}`" if plain else ""
    shown = "needed" if parameter.required else shown
    return f"| `{'`, `'.join(names)}` | {shown} | {description} |"


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
