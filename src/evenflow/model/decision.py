"""Decisions of the controller at batch boundaries, and their measured outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model.codes import Reason, Trigger, VerdictCode
from evenflow.model.facts import facts_html, facts_line
from evenflow.model.plan import Move, Plan, Transfer
from evenflow.model.words import decision_words


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit that a plan could not meet; planners return it instead of raising an exception.

    subject    the key, query, worker or planner concerned
    reachable  the best value of the broken bound that a plan can reach; None: not known
    """

    code: VerdictCode
    subject: str
    message: str
    reachable: float | None = None


@dataclass(frozen=True, slots=True)
class BalanceMetrics:
    """The balance of the active workers over some batches, measured or predicted.

    imbalance      largest over mean load; 1 is even
    max_load       CPU seconds of the busiest worker in a batch
    mean_load      CPU seconds of a worker in a batch
    deviation      standard deviation of a worker's load over time, averaged over workers
    correlation    mean pairwise correlation of the workers' loads over time; 0 if undefined
    shipped_bytes  bytes of streams sent to whole queries in a batch: once to each worker of one
    """

    imbalance: float
    max_load: float
    mean_load: float
    deviation: float = 0.0
    correlation: float = 0.0
    shipped_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan to follow from one batch boundary on, or the reason why nothing changes.

    plan         None: nothing changes
    target       the final plan if the move budget requires several stages, else None
    moved_bytes  measured state that the moves transfer
    arrived      queries placed at this boundary, and their workers; keyed ones are `EVERYWHERE`
    move_price   seconds that moving a megabyte was expected to cost; None: not known
    proposal     number of the proposal that it makes, follows or waits for
    """

    batch: int
    at: float
    trigger: Trigger
    reason: Reason
    message: str
    before: BalanceMetrics
    predicted: BalanceMetrics | None = None
    plan: Plan | None = None
    target: Plan | None = None
    moves: tuple[Move, ...] = ()
    moved_bytes: float = 0.0
    verdicts: tuple[Verdict, ...] = ()
    arrived: Mapping[str, int] = field(default_factory=dict)
    move_price: float | None = None
    proposal: int | None = None

    def facts(self) -> dict[str, object]:
        """Return what people want to know of a decision."""
        found: dict[str, object] = {
            "message": self.message,
            "imbalance before": f"{self.before.imbalance:.3f}",
        }
        if self.predicted is not None:
            found["predicted"] = f"{self.predicted.imbalance:.3f}"
        if self.plan is not None:
            found |= {"moves": len(self.moves), "state to move, bytes": round(self.moved_bytes)}
        return found | {f"limit {n}": v.message for n, v in enumerate(self.verdicts, 1)}

    @property
    def title(self) -> str:
        """What was decided and why, in words."""
        words = decision_words(self.trigger, self.reason, changed=self.plan is not None)
        return f"decision {self.batch}: {words}"

    def __repr__(self) -> str:
        return facts_line(self.title, self.facts())

    def _repr_html_(self) -> str:
        return facts_html(self.title, self.facts())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of a decision, measured in the first busy batch under its plan.

    decision          batch of the decision
    handed_bytes      state that was transferred
    pause_seconds     how much longer than usual the batch of the transfer took
    duration_seconds  from the decision until all state was transferred; None: not known
    handed            the transfers by query and workers; all happen in one batch, so pause and
                      duration hold for each of them
    """

    decision: int
    batch: int
    measured: BalanceMetrics
    handed_bytes: int
    pause_seconds: float
    duration_seconds: float | None = None
    handed: tuple[Transfer, ...] = ()
