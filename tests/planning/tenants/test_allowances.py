"""Who is slowed, and how much."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model.tenants import Priority, TenantLimits, Tenants
from evenflow.planning.tenants import Overload, QueryNeed, allowances, water_level

AMOUNTS = st.floats(0, 1e6, allow_subnormal=False)


def need(uid: str, tenant: str | None, seconds: float, rows: float = 100.0) -> QueryNeed:
    return QueryNeed(
        uid=uid,
        tenant=tenant,
        rows=rows,
        came=rows,
        row_seconds=seconds / rows if rows else 0.0,
        row_results=1.0,
        state_bytes=1.0,
    )


def used(needs: list[QueryNeed], allowed: dict[str, float]) -> float:
    return sum(min(n.rows, allowed.get(n.uid, math.inf)) * n.row_seconds for n in needs)


@given(demands=st.lists(AMOUNTS, max_size=20), limit=st.floats(1e-3, 1e6))
def test_a_level_uses_up_the_limit_or_cuts_nobody(demands: list[float], limit: float) -> None:
    level = water_level(demands, limit)
    if math.isinf(level):
        assert sum(demands) <= limit * (1 + 1e-9)
    else:
        assert sum(min(d, level) for d in demands) == pytest.approx(limit)


@given(
    seconds=st.lists(st.floats(1e-3, 10), min_size=1, max_size=8),
    share=st.floats(0.01, 1),
    other=st.floats(1e-3, 10),
)
def test_a_tenant_gets_its_share_and_its_light_queries_run_freely(
    seconds: list[float], share: float, other: float
) -> None:
    needs = [need(f"q{at}", "acme", s) for at, s in enumerate(seconds)]
    tenants = Tenants({"acme": TenantLimits(cpu_share=share)})
    found = allowances([*needs, need("other", "globex", other)], tenants, 4.0)
    assert "other" not in found
    total = used(needs, {uid: a.rows for uid, a in found.items()})
    assert total == pytest.approx(min(sum(seconds), 4 * share))
    slowed = [n.seconds for n in needs if n.uid in found]
    free = [n.seconds for n in needs if n.uid not in found]
    if slowed and free:
        assert max(free) <= min(slowed)


def test_what_nobody_else_needs_may_be_used() -> None:
    tenants = Tenants({"acme": TenantLimits(cpu_share=0.1)})
    busy, idle = need("busy", "acme", 1.5), need("idle", None, 0.0, rows=0)
    assert allowances([busy, idle], tenants, 2.0) == {}
    assert allowances([busy, need("other", None, 0.1)], tenants, 2.0)["busy"].rows < 100
    assert allowances([need("huge", "acme", 5.0), idle], tenants, 2.0)["huge"].rows == 40


def test_under_overload_low_priority_waits_first_and_the_highest_never() -> None:
    tenants = Tenants(
        {"first": TenantLimits(priority=Priority.HIGH), "last": TenantLimits(priority=Priority.LOW)}
    )
    high, low = need("high", "first", 1.0), need("low", "last", 1.0)
    normal = [need("a", None, 0.2), need("b", "undeclared", 1.0)]
    needs = [high, low, *normal]
    mild = allowances(needs, tenants, 4.0, Overload(1.0, 2.8))
    assert {uid: round(a.rows) for uid, a in mild.items()} == {"low": 60}
    severe = allowances(needs, tenants, 4.0, Overload(1.0, 1.6))
    assert {uid: round(a.rows) for uid, a in severe.items()} == {"low": 8, "b": 40}
    assert "priority low comes last" in severe["low"].reason
    alike = [need("a", None, 3.0), need("b", None, 3.0)]
    assert allowances(alike, tenants, 4.0, Overload(1.0, 2.0)) == {}, "nobody comes before another"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"cpu_share": 1.5}, "cpu_share must be above 0 and at most 1, got 1.5"),
        ({"queries": -1}, "queries must not be negative, got -1"),
        ({"state_bytes": "much"}, "state_bytes 'much' is not a size"),
        ({"priority": "urgent"}, "priority must be high, low, normal, got 'urgent'"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TenantLimits(**limits)  # type: ignore[arg-type]


def test_undeclared_tenants_have_the_default_limits_and_nobody_has_none() -> None:
    tenants = Tenants({"default": TenantLimits(queries=3), "acme": TenantLimits(queries=9)})
    assert [tenants.limits(t).queries for t in ("acme", "globex", None)] == [9, 3, None]
