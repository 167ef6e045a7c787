"""What comes from outside is shown without effect on the terminal that shows it."""

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.support.service_world import decision

from evenflow.cli import output
from evenflow.cli.inspect import _print_decision
from evenflow.cli.live_view import decision_line
from evenflow.display import hide_value, printable

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\r[bold]x[/bold]"
CONTROLS = set("\x1b\x07\x9b\u202e\r\x00")


@given(st.text(st.characters(codec="utf-8")) | st.text())
def test_no_control_character_is_left(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    shown.encode()  # no half of a character either
    assert printable(shown) == shown
    assert len(printable(text, 10, lines=True)) <= 60


def test_text_of_people_stays_as_it_is() -> None:
    for text in ("Grüße, 東京 👩‍💻", r"C:\x1b", "a 'quoted' [name]"):
        assert printable(text) == text


def test_the_longest_hidden_value_wins() -> None:
    hide_value("secret-1", "${ONE}")
    hide_value("secret-1-and-2", "${TWO}")
    hide_value("short", "${SHORT}")
    assert printable("secret-1-and-2 secret-1 short") == "${TWO} ${ONE} short"


def printed(capsys: pytest.CaptureFixture[str], call: Any, *arguments: Any) -> str:
    call(*arguments)
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (output.print_error, (HOSTILE,)),
        (output.print_progress, (HOSTILE,)),
        (output.print_rows, ((HOSTILE,), [(HOSTILE,)])),
        (output.print_items, ([HOSTILE], {"key": str})),
        (output.print_result, (HOSTILE, {HOSTILE: HOSTILE}, ())),
    ],
    ids=["error", "progress", "rows", "items", "result"],
)
def test_no_command_passes_controls_to_the_terminal(
    capsys: pytest.CaptureFixture[str], call: Any, arguments: Any
) -> None:
    found = printed(capsys, call, *arguments)
    assert not CONTROLS & set(found), repr(found)
    assert "owned" in found


def test_decisions_pass_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    assert not CONTROLS & set(decision_line(replace(decision(1), message=HOSTILE)))
    figures = {"imbalance": 1.0, "max_load": 1.0, "mean_load": 1.0, "deviation": 0.0,
               "correlation": 0.0, "shipped_bytes": 0.0}  # fmt: skip
    move = {"query": "q", "before": 0, "after": 1, "key": HOSTILE}
    said = {"number": 1, "title": HOSTILE, "trigger": "t", "reason": "r", "message": HOSTILE,
            "before": figures,
            "predicted": None, "measured": None, "move_count": 1, "moves": [move],
            "verdicts": [{"code": "c", "message": HOSTILE}]}  # fmt: skip
    assert not CONTROLS & set(printed(capsys, _print_decision, said))


def test_rich_markup_has_no_effect() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(output.safe("[bold]x[/bold] \x1b[31m"))
    assert "[bold]x[/bold] \\x1b[31m" in console.file.getvalue()  # type: ignore[attr-defined]
