"""The controller of live balancing: snapshots and earlier decisions in, one decision out. Pure."""

from evenflow.planning.controller.approval import (
    Approval,
    await_approval,
    follow_approved,
    recorded_answers,
)
from evenflow.planning.controller.arrivals import (
    mean_query_loads,
    mean_stream_bytes,
    place_arriving_queries,
)
from evenflow.planning.controller.autoscale import advise
from evenflow.planning.controller.balance import measure_outcome, measured_balance
from evenflow.planning.controller.build_decision import manual_decision, refuse_plan
from evenflow.planning.controller.config import Autoscale, Balancing
from evenflow.planning.controller.decide import decide
from evenflow.planning.controller.predict import same_plan
from evenflow.planning.controller.propose import propose, used_repair
from evenflow.planning.controller.replay import Replay, replay_history
from evenflow.planning.controller.traffic_repair import (
    decide_traffic_repair,
    is_repair_due,
    is_still_valid,
    plan_traffic_repair,
    with_repair_result,
)
from evenflow.planning.controller.what_if import Scenario, ScenarioResult, evaluate_scenario
from evenflow.planning.controller.window import select_window

__all__ = [
    "Approval",
    "Autoscale",
    "Balancing",
    "Replay",
    "Scenario",
    "ScenarioResult",
    "advise",
    "await_approval",
    "decide",
    "decide_traffic_repair",
    "evaluate_scenario",
    "follow_approved",
    "is_repair_due",
    "is_still_valid",
    "manual_decision",
    "mean_query_loads",
    "mean_stream_bytes",
    "measure_outcome",
    "measured_balance",
    "place_arriving_queries",
    "plan_traffic_repair",
    "propose",
    "recorded_answers",
    "refuse_plan",
    "replay_history",
    "same_plan",
    "select_window",
    "used_repair",
    "with_repair_result",
]
