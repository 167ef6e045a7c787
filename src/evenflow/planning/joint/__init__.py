"""One controller for keys, queries and workers: what was observed in, a decision out. Pure."""

from evenflow.planning.joint.arrival import arrive, mean_loads, stream_rates
from evenflow.planning.joint.asked import asked, without_plan
from evenflow.planning.joint.config import Balancing
from evenflow.planning.joint.decide import decide
from evenflow.planning.joint.judge import measured, outcome
from evenflow.planning.joint.projection import same_plan
from evenflow.planning.joint.recent import remembered
from evenflow.planning.joint.replay import Replay, replay
from evenflow.planning.joint.slow import adopt, considered, global_plan, is_due, still_valid
from evenflow.planning.joint.whatif import Answer, Change, whatif

__all__ = [
    "Answer",
    "Balancing",
    "Change",
    "Replay",
    "adopt",
    "arrive",
    "asked",
    "considered",
    "decide",
    "global_plan",
    "is_due",
    "mean_loads",
    "measured",
    "outcome",
    "remembered",
    "replay",
    "same_plan",
    "still_valid",
    "stream_rates",
    "whatif",
    "without_plan",
]
