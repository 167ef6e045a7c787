"""One controller for keys, queries and workers: what was observed in, a decision out. Pure."""

from evenflow.planning.joint.arrival import arrive, stream_rates
from evenflow.planning.joint.config import Balancing
from evenflow.planning.joint.decide import decide
from evenflow.planning.joint.judge import judge, outcome

__all__ = ["Balancing", "arrive", "decide", "judge", "outcome", "stream_rates"]
