"""Codes in decisions, verdicts and the history. Their values are persisted: never change one."""

from enum import StrEnum
from typing import Self


class Code(StrEnum):
    """A code that equals its text. A text of another version is kept as it is.

    >>> Trigger("drain") is Trigger.DRAIN, Trigger("from_the_future") == "from_the_future"
    (True, True)
    """

    @classmethod
    def _missing_(cls, value: object) -> Self:
        code = str.__new__(cls, str(value))
        code._name_, code._value_ = "UNKNOWN", str(value)
        return code


class Trigger(Code):
    """Why the controller considered a change at a batch boundary."""

    NONE = "none"  # nothing called for a change
    IMBALANCE = "imbalance"  # a worker is above max_imbalance, and noise does not explain it
    INITIAL = "initial"  # the warm-up is over: all whole queries are placed afresh, once
    BURSTS = "bursts"  # load peaks of whole queries coincide on a worker
    TRAFFIC = "traffic"  # the background planner of source traffic (`repair`) proposed a plan
    DRAIN = "drain"  # a worker was requested to be drained
    ACTIVATE = "activate"  # a drained worker was requested to work again
    AUTOSCALE = "autoscale"  # the load needs more or fewer workers
    ARRIVAL = "arrival"  # queries were placed, and nothing else was decided
    COOLED = "cooled"  # a split key needs fewer workers
    PROMOTION = "promotion"  # a whole query outgrew one worker and becomes keyed
    STAGED = "staged"  # an earlier plan exceeded the move budget; this is its next stage
    MANUAL = "asked"  # a manual plan, a rollback, a pin, or the plan of a user's controller


class Reason(Code):
    """What was decided: what a plan moves, or why there is no plan."""

    # With a plan
    KEYS = "keys"  # keys of keyed queries move
    QUERIES = "queries"  # whole queries move
    PROMOTED = "promoted"  # whole queries become keyed
    ACTIVATED = "activated"  # a drained worker takes work again
    DRAINED = "drained"  # work moves off a worker that is drained
    STAGED = "staged"  # one more stage of an earlier plan
    MANUAL = "asked"  # see Trigger.MANUAL
    # Without a plan
    INFEASIBLE = "infeasible"  # no plan keeps the bound; a verdict names the cause
    COOLDOWN = "cooldown"  # items that would help left the target worker too recently
    GAIN_TOO_SMALL = "gain_too_small"  # below min_gain, or not paid back within `payback` batches
    NOT_WORTH_IT = "not_worth_it"  # the excess is less than min_excess of the batch interval
    MOVES_IN_FLIGHT = "moves_in_flight"  # light keys of drained workers are not measured yet
    NOT_SURE = "not_sure"  # above the bound, but noise may explain it
    FEW_SAMPLES = "few_samples"  # fewer usable batches than `samples`, or no key statistics yet
    OFF = "off"  # the planner that could help is switched off
    BALANCED = "balanced"  # within the bound
    NO_LOAD = "no_load"  # no query used CPU in the window
    STALE = "stale"  # the plan for source traffic was made for other workers or pins
    REFUSED = "refused"  # the plan does not fit what is hosted; verdict plan_refused says why
    PROPOSED = "proposed"  # mode propose: the plan waits for approval
    WAITING = "waiting"  # an earlier proposal waits for approval, or for its maintenance window
    REJECTED = "rejected"  # a proposal was rejected, and the load has not changed since
    OUTSIDE_WINDOW = "outside_window"  # no maintenance window (`allow`) is open


class ProposalState(Code):
    """What became of a plan that waits for approval."""

    WAITING = "waiting"  # nobody has answered yet
    APPROVED = "approved"  # it is followed when a maintenance window opens
    REJECTED = "rejected"  # not proposed again until the load changes
    ADOPTED = "adopted"  # approved and followed
    EXPIRED = "expired"  # the load or the hosted queries changed, or another plan was adopted


class BalancingMode(StrEnum):
    """What happens to the plans of the planners (`Balancing.mode`)."""

    AUTO = "auto"  # they are followed
    PROPOSE = "propose"  # they wait for approval
    OFF = "off"  # there are none


class VerdictCode(Code):
    """A limit that a plan could not meet, or a planner that failed."""

    # Controller
    HEAVY_KEY = "heavy_key"  # one key exceeds what a worker may carry
    HEAVY_QUERY = "heavy_query"  # one whole query exceeds what a worker may carry
    ALL_DRAINED = "all_drained"  # all workers are to be drained; one must stay
    PINNED_ON_DRAINED = "pinned_on_drained"  # a query is pinned to a worker that is to be drained
    OVER_BUDGET = "over_budget"  # a stage moves more than budget_bytes; an item cannot be split
    OVERLOAD = "overload"  # what-if: the busiest worker needs more CPU than a batch interval has
    PLAN_REFUSED = "plan_refused"  # a plan does not fit what is hosted
    PLANNER_FAILED = "planner_failed"  # the background planner raised; the subject is its name
    # Planners of keys
    COARSE_KEYS = "coarse_keys"  # heavy keys together exceed what some worker may carry
    TABLE_EXCEEDED = "table_exceeded"  # the plan needs more than max_table entries
    UNBALANCED = "unbalanced"  # a worker stays above the limit
    NO_PLAN = "no_plan"  # exact: no plan keeps both the balance and the table bound
    NOT_PROVEN = "not_proven"  # exact: time limit reached, the plan may not be optimal
    SPLIT_KEYS = "split_keys"  # pkg and others: split keys give partial results to merge
    NOT_DIVISIBLE = "not_divisible"  # pkg and others: the query does not divide rows of a key
    # Planners of operators
    OPERATOR_EXCEEDS_WORKER = "operator_exceeds_worker"  # one operator needs more than a worker has
    TOTAL_EXCEEDS_CAPACITY = "total_exceeds_capacity"  # all need more than all workers have
    BURSTS_EXCEED_CAPACITY = "bursts_exceed_capacity"  # mean plus deviation exceeds a worker
    OPTIMUM_NOT_PROVED = "optimum_not_proved"  # search limit reached, the plan may not be optimal
    # Planners of queries
    OVER_BOUND = "over_bound"  # workers exceed the balance bound
    NO_ROOM = "no_room"  # offline: queries fit on no worker, and went to the least loaded
    ARRIVAL_OVER_BOUND = "arrival_over_bound"  # online: the same for arriving queries


class MoveOrder(StrEnum):
    """Which moves of a plan come first if the budget does not allow all (`Balancing.order`)."""

    HOT = "hot"  # the most load first
    SMALL = "small"  # the least state first


class HistoryKind(StrEnum):
    """What one row of a history file describes."""

    BATCHES = "batches"  # a batch; plans by fingerprint, see `plans`
    STATISTICS = "statistics"  # a query on a worker in a batch, if it has anything there
    KEYS = "keys"  # a heavy key of a keyed query in a batch; null hash: all others of a worker
    TRAFFIC = "traffic"  # a stream sent to a worker in a batch
    PLANS = "plans"  # a plan, in the first file of a block of batches that refers to it
    DECISIONS = "decisions"  # a decision
    OUTCOMES = "outcomes"  # what was measured after a decision


class QueryForm(StrEnum):
    """How a query was declared."""

    QUERY = "query"  # one SQL text
    TEMPLATE = "template"  # one SQL text with parameters, for many subscriptions
    OPERATOR = "operator"  # a Python class


class QueryKind(StrEnum):
    """What a query compiles to: which state it needs, and what its rows produce."""

    STATELESS = "stateless"  # no state; a row produces at most one result per branch
    AGGREGATE = "aggregate"  # partial panes of windows
    JOIN = "join"  # buffered rows of streams joined within a time bound
    JOIN_AGGREGATE = "join_aggregate"  # both
    TEMPLATE = "template"  # subscriptions, matched with each event
    PYTHON = "python"  # what a Python operator stores


class OnBadFile(StrEnum):
    """What to do about a file of a source that cannot be read."""

    STOP = "stop"  # stop the run with the name of the file
    SKIP = "skip"  # leave the whole file out, and list its name


class EnvelopeKind(StrEnum):
    """What the blob of an envelope holds."""

    ROWS = "rows"  # rows as an Arrow stream
    FILE_REF = "file_ref"  # a `PartRef` to rows in a chunk file, as JSON
    POISON = "poison"  # rows that are set aside because of their event time
    PARTIAL = "partial"  # partial rows of one aggregate, combined by the router
    QUERY_ROWS = "query_rows"  # rows for one query only: the router could not combine them
    CLOCK = "clock"  # the latest event time of rows that are not sent as such, as JSON
