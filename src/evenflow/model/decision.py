"""What the controller decided at a batch border, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model.codes import Reason, Trigger, VerdictCode
from evenflow.model.plan import Move, Plan, Transfer


@dataclass(frozen=True, slots=True)
class Verdict:
    """A named limit of a plan.

    `code` is stable and for machines, `subject` names the key, query or worker it is about,
    `message` is for people, and `reachable` is what can be hoped for of the broken bound,
    where that is known.
    """

    code: VerdictCode
    subject: str
    message: str
    reachable: float | None = None


@dataclass(frozen=True, slots=True)
class BalanceMetrics:
    """The state of balance, measured or predicted.

    imbalance      largest over mean load of the active workers: 1 is even
    max_load       CPU seconds of the busiest worker in a batch
    mean_load      of all active workers
    deviation      mean over workers of the standard deviation of their load over the window
    correlation    mean pairwise correlation of the workers' load series, 0 if undefined
    shipped_bytes  bytes of streams sent to workers in a batch
    """

    imbalance: float
    max_load: float
    mean_load: float
    deviation: float = 0.0
    correlation: float = 0.0
    shipped_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """One border: a plan to follow, or why there is none.

    trigger      what asked for a look: a stable code (`imbalance`, `bursts`, `traffic`, `drain`,
                 `activate`, `arrival`, `promotion`, `staged`, `asked`, `none`)
    reason       what came of it: stable code, see the controller
    plan         to follow from now on; None: nothing changes
    target       where the plan leads when moves are spread over several borders, else None
    moved_bytes  state that the moves to `plan` carry, as measured before them
    arrived      queries placed at this border before anything else, and their workers; keyed ones
                 are `EVERYWHERE`
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision brought: measured in the first batch with work under its plan.

    handed_bytes      state that really changed hands
    pause_seconds     how much longer the batch of the hand-over took than those before it
    duration_seconds  from the border of the decision until everything had moved; None: not known
    handed            the same state by query and workers; all of it moves in one batch, so that
                      pause and duration are those of every move
    """

    decision: int
    batch: int
    measured: BalanceMetrics
    handed_bytes: int
    pause_seconds: float
    duration_seconds: float | None = None
    handed: tuple[Transfer, ...] = ()
