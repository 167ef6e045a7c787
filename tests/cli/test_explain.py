"""The table of moves of `evenflow explain`."""

from typing import Any

from evenflow.cli.inspect import _move_rows


def route(query: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    return {"query": query, "before": before, "after": after, **more}


def test_a_split_key_is_listed_with_all_its_workers() -> None:
    move = route("sums", 1, 1, key="a", owners_before=[1], owners_after=[1, 4, 6])
    decision = {"moves": [move], "measured": None}
    assert list(_move_rows(decision, complete=True)) == [("sums", "a", "1 -> 1, 4, 6", "")]


def test_state_is_listed_once_per_route_and_for_light_keys() -> None:
    decision = {
        "moves": [
            route("sums", 0, 1, key="a"),
            route("sums", 0, 1, key="b"),
            route("wide", 2, 0, key=None),
        ],
        "measured": {
            "handed": [
                route("sums", 0, 1, bytes=1500),
                route("wide", 2, 0, bytes=20),
                route("sums", 2, 0, bytes=300),
            ]
        },
    }
    rows = [
        ("sums", "a", "0 -> 1", "1.5 kB"),
        ("sums", "b", "0 -> 1", ""),
        ("wide", "whole query", "2 -> 0", "20 B"),
    ]
    light = ("sums", "light keys", "2 -> 0", "300 B")
    assert list(_move_rows(decision, complete=True)) == [*rows, light]
    assert list(_move_rows(decision, complete=False)) == rows
    unmeasured = {**decision, "measured": None}
    assert [row[-1] for row in _move_rows(unmeasured, complete=True)] == ["", "", ""]
