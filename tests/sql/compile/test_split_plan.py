"""By which streams a hot key of a query can be split, and by which it cannot."""

import pyarrow as pa
import pytest

from evenflow.sql import Catalog, Stream, compile_query
from evenflow.sql.split_plan import SplitPlan, SplitPolicy, split_plan

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.int64())])
CATALOG = Catalog({name: Stream(SCHEMA, "ts") for name in ("a", "b", "c")})
NEAR = "l.k = r.k AND r.ts >= l.ts AND r.ts <= l.ts + INTERVAL 10 SECONDS"
PAIRS = f"SELECT l.ts, l.k, l.x, r.x AS y FROM {{}} l JOIN {{}} r ON {NEAR}"
COUNTS = "SELECT window(ts, '10 seconds') AS w, k, count(*) AS n FROM {} GROUP BY 1, 2"
THREE = (
    "SELECT l.ts, l.k FROM a l JOIN b r ON l.k = r.k AND r.ts >= l.ts AND "
    "r.ts <= l.ts + INTERVAL 10 SECONDS JOIN {} m ON m.k = l.k AND m.ts >= l.ts AND "
    "m.ts <= l.ts + INTERVAL 10 SECONDS"
)


@pytest.mark.parametrize(
    ("sql", "divided"),
    [
        ("SELECT ts, k FROM a WHERE x > 1", {"a": ("a",)}),
        ("SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b", {"a": ("a", "b"), "b": ("a", "b")}),
        (PAIRS.format("a", "b"), {"a": ("a",), "b": ("b",)}),
        (PAIRS.format("a", "a"), {"a": ()}),
        (THREE.format("c"), {"a": ("a",), "b": ("b",), "c": ("c",)}),
        (THREE.format("a"), {"a": (), "b": ("b",)}),
        (COUNTS.format("a"), {"a": ("a",)}),
        (COUNTS.format(f"({PAIRS.format('a', 'b')})"), {"a": ("a",), "b": ("b",)}),
        (COUNTS.format(f"({PAIRS.format('a', 'a')})"), {"a": ()}),
        # A row without a match is known where all rows that could match it are.
        (PAIRS.format("a", "b").replace("JOIN", "LEFT JOIN"), {"a": ("a",)}),
        (PAIRS.format("a", "a").replace("JOIN", "LEFT JOIN"), {}),
        (PAIRS.format("a", "b").replace("JOIN", "RIGHT JOIN"), {"b": ("b",)}),
        (PAIRS.format("a", "b").replace("JOIN", "FULL JOIN"), {}),
        # Every part of a union needs the rows of the stream at one owner, or a role of its own.
        (f"{PAIRS.format('a', 'a')} UNION ALL {PAIRS.format('a', 'a')}", {"a": ()}),
        (f"{PAIRS.format('a', 'b')} UNION ALL {PAIRS.format('a', 'c')}", {"a": ("a",)}),
        (f"{PAIRS.format('a', 'b')} UNION ALL SELECT ts, k, x, x AS y FROM a", {"a": ("a",)}),
        (f"{PAIRS.format('a', 'b')} UNION ALL SELECT ts, k, x, x AS y FROM c", {}),
        (f"{PAIRS.format('a', 'a')} UNION ALL SELECT ts, k, x, x AS y FROM a", {}),
        # The windows of an aggregate are emitted at home, in time for another aggregate only.
        (
            "SELECT window(w.end, '1 minute') AS m, k, max(n) AS most "
            f"FROM ({COUNTS.format('a')}) GROUP BY 1, 2",
            {"a": ("a",)},
        ),
    ],
)  # fmt: skip
def test_the_streams_a_key_can_be_split_by(sql: str, divided: dict[str, tuple[str, ...]]) -> None:
    program = compile_query("q", sql, CATALOG, key="k")
    assert dict(program.divided) == divided


def test_a_query_without_a_key_is_not_split() -> None:
    query = compile_query(
        "q",
        f"SELECT l.ts FROM a l JOIN b r ON {NEAR.replace('l.k = r.k', 'l.x + 1 = r.x')}",
        CATALOG,
    )
    assert query.key is None
    assert query.divided == {}


def plan_of(sql: str, stream: str) -> SplitPlan:
    plan = split_plan(compile_query("q", sql, CATALOG, key="k").plan.root, stream)
    assert plan is not None
    return plan


def test_the_divided_input_is_stored_in_fragments_and_the_others_everywhere() -> None:
    plan = plan_of(THREE.format("c"), "b")
    stored = {alias: policy for (_, alias), policy in plan.stores.items() if alias}
    assert stored == {
        "l": SplitPolicy.REPLICA, "r": SplitPolicy.FRAGMENT, "m": SplitPolicy.REPLICA,
    }  # fmt: skip
    assert plan.roles == {}


def test_a_self_join_stores_all_rows_everywhere_and_one_input_has_the_role() -> None:
    plan = plan_of(COUNTS.format(f"({PAIRS.format('a', 'a')})"), "a")
    assert list(plan.roles.values()) == ["l"]
    assert {p for (_, alias), p in plan.stores.items() if alias} == {SplitPolicy.REPLICA}
    assert SplitPolicy.HOME in plan.stores.values()
