"""What `evenflow explain` says about the moves of a decision."""

from typing import Any

from evenflow.cli.inspect import _move_rows


def way(query: str, before: int, after: int, **more: Any) -> dict[str, Any]:
    return {"query": query, "before": before, "after": after, **more}


def test_state_is_told_once_for_keys_that_go_the_same_way_and_for_light_keys() -> None:
    made = {
        "moves": [
            way("sums", 0, 1, key="a"),
            way("sums", 0, 1, key="b"),
            way("wide", 2, 0, key=None),
        ],
        "measured": {
            "handed": [
                way("sums", 0, 1, bytes=1500),
                way("wide", 2, 0, bytes=20),
                way("sums", 2, 0, bytes=300),
            ]
        },
    }
    told = [
        ("sums", "a", "0 -> 1", "1.5 kB"),
        ("sums", "b", "0 -> 1", ""),
        ("wide", "whole query", "2 -> 0", "20 B"),
    ]
    assert list(_move_rows(made, whole=True)) == [*told, ("sums", "light keys", "2 -> 0", "300 B")]
    assert list(_move_rows(made, whole=False)) == told
    assert [line[-1] for line in _move_rows({**made, "measured": None}, whole=True)] == ["", "", ""]
