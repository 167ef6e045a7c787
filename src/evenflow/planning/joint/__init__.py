"""One controller for keys, queries and workers: what was observed in, a decision out. Pure."""

from evenflow.planning.joint.arrival import arrive, stream_rates
from evenflow.planning.joint.config import Balancing
from evenflow.planning.joint.decide import decide
from evenflow.planning.joint.judge import measured, outcome
from evenflow.planning.joint.replay import Replay, replay
from evenflow.planning.joint.slow import adopt, global_plan, still_valid
from evenflow.planning.joint.whatif import Answer, Change, whatif

__all__ = [
    "Answer",
    "Balancing",
    "Change",
    "Replay",
    "adopt",
    "arrive",
    "decide",
    "global_plan",
    "measured",
    "outcome",
    "replay",
    "still_valid",
    "stream_rates",
    "whatif",
]
