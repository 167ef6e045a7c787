"""Attacks by files: hostile specifications, given to `evenflow validate`."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_SECONDS = 60
SECRET = "hunter2-and-more"  # noqa: S105 - what must not be shown
SPEC = """\
workers: 2
checkpoint: run
datasets:
  market: {kind: market, batches: 2, rows: 50, limits: 3}
sources:
  trades: {dataset: market, time: ts, watermark: 1 second}
queries:
  dear: SELECT ts, symbol FROM trades WHERE price > 100
"""


@dataclass(frozen=True)
class OutsideAttack:
    """One attack; `act` returns what happened, one of the outcomes in `expected`.

    HTTP attacks get the address of the service, attacks by files an empty folder.
    """

    name: str
    how: str
    expected: tuple[str, ...]
    act: Callable[[str], str]


def validate(text: str, *files: tuple[str, str], **variables: str) -> Callable[[str], str]:
    """Check a hostile specification; the outcome has the exit code, or what it gave away."""

    def act(folder: str) -> str:
        spec = Path(folder) / "spec.yaml"
        spec.write_text(text, encoding="utf-8")
        for name, content in files:
            (Path(folder) / name).write_text(content)
        return cli(["validate", str(spec)], variables)

    return act


def cli(arguments: list[str], variables: dict[str, str]) -> str:
    command = [sys.executable, "-c", "from evenflow.cli.app import main; main()", *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **variables},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    said = done.stdout + done.stderr
    if SECRET.encode() in said:
        return "shows the secret"
    if b"\x1b" in said or b"Traceback" in said:
        return "terminal escape" if b"\x1b" in said else "traceback"
    return f"exit {done.returncode}"


def _alias_bomb(item: str) -> str:
    lines = ["a0: &a0 {k: 1}"]
    for level in range(1, 40):
        copies = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} {item.replace('COPIES', copies)}")
    return "\n".join(lines) + f"\n{SPEC}"


FILE_ATTACKS = (
    OutsideAttack("alias bomb", "aliases that expand to 9^39 lists", ("exit 2",),
                  validate(_alias_bomb("[COPIES]"))),
    OutsideAttack("merge bomb", "merged mappings that expand to 9^39", ("exit 2",),
                  validate(_alias_bomb("{<<: [COPIES]}"))),
    OutsideAttack("alias of itself", "a: &a [*a]", ("exit 2",), validate(f"a: &a [*a]\n{SPEC}")),
    OutsideAttack("deep YAML", "3,000 nested lists", ("exit 2",),
                  validate(f"a: {'[' * 3000}{']' * 3000}\n{SPEC}")),
    OutsideAttack("large file", "a specification of 2 MB", ("exit 2",),
                  validate(SPEC + "#" * 2_000_000)),
    OutsideAttack("endless file", "/dev/zero as specification", ("exit 2",),
                  lambda _: cli(["validate", "/dev/zero"], {})),
    OutsideAttack("Python in YAML", "!!python/object/apply:os.system", ("exit 2",),
                  validate(f"a: !!python/object/apply:os.system [id]\n{SPEC}")),
    OutsideAttack("sink out of the checkpoint", "a sink named ../../x", ("exit 2",),
                  validate(f"{SPEC}sinks:\n  ../../x: {{format: console}}\n")),
    OutsideAttack("absolute sink", "a sink named /tmp/x", ("exit 2",),
                  validate(f"{SPEC}sinks:\n  /tmp/x: {{format: console}}\n")),
    OutsideAttack("very long name", "a query with a name of 5,000 letters", ("exit 2",),
                  validate(SPEC.replace("dear", "d" * 5_000))),
    OutsideAttack("names that collide", "sinks Files and files", ("exit 2",),
                  validate(f"{SPEC}sinks:\n  Files: {{format: console}}\n"
                           "  files: {format: console}\n")),
    OutsideAttack("secret in an error", "workers: ${SECRET}", ("exit 2",),
                  validate(SPEC.replace("workers: 2", "workers: ${SECRET}"), SECRET=SECRET)),
    OutsideAttack("secret in SQL", "SQL with ${SECRET} that does not compile", ("exit 2",),
                  validate(SPEC.replace("price > 100", "'${SECRET}' > nothing"), SECRET=SECRET)),
    OutsideAttack("literal token", "a token written into the file", ("exit 2",),
                  validate(f"{SPEC}service: {{tokens: {{anna: {SECRET}}}}}\n")),
    OutsideAttack("escape in a name", "a query named with a terminal escape", ("exit 2",),
                  validate(SPEC.replace("dear", '"\\x1b[31m"'))),
    OutsideAttack("escape in a path", "a source path with a terminal escape", ("exit 2",),
                  validate(SPEC.replace("dataset: market", 'format: csv, path: "\\x1b[31m", '
                                                           'schema: "ts TIMESTAMP"'))),
)  # fmt: skip
