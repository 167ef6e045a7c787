"""Specifications that would hang, leave their folder or give away a secret are refused."""

import json
from pathlib import Path

import pytest
from tests.spec.test_load import GOOD, read, refusals
from typer.testing import CliRunner

from evenflow.cli.app import app
from evenflow.errors import InputError
from evenflow.spec.document import MAX_FILE_BYTES

SECRET = "hunter2-and-more"  # noqa: S105 - what must not be shown


def alias_bomb(levels: int = 40) -> str:
    """A file of some lines that would be 9^40 values written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def merge_bomb(levels: int = 40) -> str:
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (alias_bomb(), "more than 100,000 values"),
        (merge_bomb(), "more than 100,000 values"),
        ("a: &a [*a]\n", "contains itself"),
        ("a: &a {b: {c: *a}}\n", "contains itself"),
        ("a: " + "[" * 3000 + "]" * 3000 + "\n", "nested deeper than 64 levels"),
        ("a: " + "[" * 80 + "]" * 80 + "\n", "64 levels"),
        ("a: " + "9" * 5000 + "\n", "not valid YAML"),
        ("a: 2024-99-99\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system [id]\n", "not valid YAML"),
        ("a: \x1b[31m\n", "does not allow the character #x1b"),
    ],
    ids=["aliases", "merges", "itself", "deep-itself", "nested", "levels", "digits", "date",
         "python", "escape"],
)  # fmt: skip
def test_hostile_yaml_is_refused(tmp_path: Path, hostile: str, said: str) -> None:
    (found, *_) = refusals(tmp_path, hostile + GOOD)
    assert said in found


def test_large_files_and_endless_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than 1,048,576 bytes"):
        read(tmp_path, GOOD + "#" * MAX_FILE_BYTES)
    done = CliRunner().invoke(app, ["validate", "/dev/zero"])
    assert (done.exit_code, "more than 1,048,576 bytes" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "name",
    ["../../x", "/etc/x", "a/b", "..", "x\0y", "x" * 129, "a\nb", "", " ", "con.txt", "ﬁles"],
    ids=repr,
)
@pytest.mark.parametrize("section", ["sinks", "queries", "datasets"])
def test_names_cannot_leave_their_folder(tmp_path: Path, section: str, name: str) -> None:
    fields = {
        "sinks": {"format": "console"},
        "queries": {"sql": "SELECT ts FROM trades"},
        "datasets": {"kind": "market", "batches": 1, "rows": 10, "limits": 1},
    }
    # JSON is YAML; the section is given a second entry.
    entry = f"{json.dumps(name)}: {json.dumps(fields[section])}"
    text = GOOD if section != "sinks" else f"{GOOD}sinks:\n"
    text = text.replace(f"{section}:\n", f"{section}:\n  {entry}\n")
    found = refusals(tmp_path, text)
    assert any("cannot name a" in line or "#x0" in line for line in found), found


def test_two_sinks_may_not_share_a_folder_on_any_disk(tmp_path: Path) -> None:
    text = f"{GOOD}sinks:\n  Files: {{format: console}}\n  files: {{format: console}}\n"
    (found,) = refusals(tmp_path, text)
    assert "sinks.files: the name is already used in sinks" in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("workers: 2", "workers: ${SECRET}"),
        ("watermark: 1 second", "watermark: '${SECRET}'"),
        ("dataset: market", "dataset: '${SECRET}'"),
        ("price > 100", "price > '${SECRET}' + nothing"),
        ("price > 100", "${SECRET}"),
        ("kind: market", "kind: x${SECRET}y"),
        ("queries:\n", "queries:\n  odd: {sql: SELECT 1, key: {a: ['${SECRET}', 5]}}\n"),
    ],
)
def test_values_of_variables_are_never_shown(
    tmp_path: Path, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD.replace(before, after))
    for options in ([], ["--json"]):
        done = CliRunner().invoke(app, ["validate", str(path), *options])
        assert done.exit_code == 2
        assert SECRET not in done.output
        assert "hunter2" not in done.output


def test_a_refused_field_is_shown_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIN", "1a")  # too short to be looked for in other texts
    (found,) = refusals(tmp_path, GOOD.replace("workers: 2", "workers: ${PIN}"))
    assert found == "spec:1:10: workers: expected an integer, got '${PIN}'"
