"""Submissions to a running flow: compiled elsewhere, without a lock that batches need."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile_sql import nest
from tests.support.local_runtime import Local
from tests.support.submissions import STREAMS, SUBMISSIONS

from evenflow.errors import InputError
from evenflow.spark.driver import submission
from evenflow.spark.driver.commands import CommandLog
from evenflow.spark.driver.pending_state import CancelQuery
from evenflow.spark.driver.submission import Submission
from evenflow.sql import Program, compile_definition, types
from evenflow.sql.compile_process import CompileProcess
from evenflow.sql.compile_server import CompileRequest


def test_a_submission_is_compiled_elsewhere_and_again_if_its_stream_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=2)
    commands, names = local.committer.commands, list[str]()

    def counted(form: str, name: str, *given: Any, **more: Any) -> Any:
        names.append(name)
        return compile_definition(form, name, *given, **more)

    monkeypatch.setattr(submission, "compile_definition", counted)
    stream = next(iter(STREAMS))
    first = Submission("query", "first", f"SELECT * FROM {stream}", publish=True)
    checked = commands.compile(first)
    commands.preview(first, checked)
    assert "first" in commands.submit(first, checked).queries
    assert names == []  # it was compiled in another process, and only there
    reader = Submission("query", "reader", "SELECT * FROM first")
    checked = commands.compile(reader)
    commands.submit(CancelQuery("first"))
    with pytest.raises(InputError, match="no stream or table 'first'"):
        commands.submit(reader, checked)
    assert names == ["reader"]


def test_no_commit_waits_for_a_submission_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=2)
    commands, compiling, go_on = local.committer.commands, threading.Event(), threading.Event()

    def compile_slowly(process: CompileProcess, request: CompileRequest) -> Program:
        compiling.set()
        assert go_on.wait(60)
        raise InputError("refused")

    monkeypatch.setattr(CompileProcess, "compile", compile_slowly)
    one = replace(SUBMISSIONS[0], name="one")
    refused = threading.Thread(target=lambda: refusals.append(refusal_of(commands, one)))
    refusals: list[str] = []
    refused.start()
    assert compiling.wait(60)
    head = local.committer.checkpoint.head()
    local.batch()  # would wait for ever if compiling held the lock
    assert local.committer.checkpoint.head() != head
    go_on.set()
    refused.join()
    assert refusals == ["refused"]


def refusal_of(commands: CommandLog, submission: Submission) -> str:
    with pytest.raises(InputError) as refused:
        commands.compile(submission)
    return str(refused.value)


def test_what_could_be_stored_and_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow writes a type of 150 levels and cannot read it: no batch would run again."""
    monkeypatch.setattr(types, "MAX_LEVELS", 1000)
    local = Local(tmp_path, STREAMS, SUBMISSIONS[:1], workers=2)
    stream = next(iter(STREAMS))
    deep = nest("array({})", 150, "1")
    with pytest.raises(InputError, match="'deep' cannot be stored: OSError"):
        local.committer.commands.submit(
            Submission("query", "deep", f"SELECT {deep} AS c FROM {stream}")
        )
    assert "deep" not in local.committer.commands.next_registry().queries
