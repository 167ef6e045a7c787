"""What a start of a specification would change against its checkpoint; needs no Spark."""

from dataclasses import dataclass
from typing import Any

from evenflow.durations import duration_us
from evenflow.errors import InputError
from evenflow.model.codes import QueryForm
from evenflow.names import join_names
from evenflow.spark.driver.checkpoint import check_compatible, checkpoint_meta
from evenflow.spark.driver.pending_state import COMMAND_FOLDER
from evenflow.spark.driver.replacement import next_name
from evenflow.spark.driver.submission import Submission, key_spec
from evenflow.spark.protocol.ledger import Ledger
from evenflow.spark.protocol.registry import Registry
from evenflow.spark.protocol.stored_results import StoredResults
from evenflow.spec import CheckedSpec
from evenflow.sql import import_operator, operator_path
from evenflow.storage.file_store import FileStore


@dataclass(frozen=True, slots=True)
class SpecDiff:
    """A specification against its checkpoint.

    added            queries that a start would begin to host
    changed          queries with another definition: a start is refused
    kept             hosted queries that the specification does not name: they go on
    sources          sources that were added, removed or changed: a start is refused
    problem          why the checkpoint cannot be continued at all, for example other workers
    pending          commands that the next start applies first
    is_new           there is no checkpoint yet
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    problem: str | None = None
    pending: int = 0
    is_new: bool = False

    @property
    def refusal(self) -> str | None:
        """Why a start would be refused, and what to do; None if it would not."""
        if self.problem is not None:
            return self.problem
        if self.sources:
            return (
                f"sources of the checkpoint cannot change: {join_names(self.sources)}; declare "
                "them as before, perhaps with more columns, or start with a new checkpoint"
            )
        if self.changed and not self.pending:
            return (
                f"{join_names(self.changed)} exists in the checkpoint with a different definition; "
                "start with that one and replace it while the run lasts, or cancel it first, or "
                "use another name"
            )
        return None


def spec_diff(checked: CheckedSpec) -> SpecDiff:
    """Compare a specification with its checkpoint."""
    store = FileStore(checked.resolve(checked.spec.checkpoint), options=checked.storage)
    declared = {submission.name: submission for submission in declared_queries(checked)}
    if not store.exists("meta"):
        return SpecDiff(added=tuple(declared), is_new=True)
    written = store.read_record("meta", dict[str, Any])
    try:
        check_compatible(written, checkpoint_meta(checked.spec.workers), store.uri)
    except InputError as error:
        return SpecDiff(problem=str(error))
    head = StoredResults(store).head()
    registry = Ledger(store).registry(head.registry_version)
    hosted = registry.queries
    pending = [n for n in store.list_names(COMMAND_FOLDER) if int(n) >= head.commands_applied]
    return SpecDiff(
        added=tuple(name for name in declared if name not in hosted),
        changed=tuple(
            name
            for name, submission in declared.items()
            if name in hosted
            and not submission.is_same_definition(hosted[name])
            and not submission.is_same_definition(hosted.get(next_name(name), hosted[name]))
        ),
        kept=tuple(sorted(hosted.keys() - declared.keys())),
        sources=tuple(_changed_sources(checked, registry)),
        pending=len(pending),
    )


def declared_queries(checked: CheckedSpec) -> list[Submission]:
    """Return the queries of a specification as they would be submitted."""
    spec, found = checked.spec, []
    for name in checked.order:
        if name in spec.operators:
            o = spec.operators[name]
            path = operator_path(import_operator(o.path))
            of_query = (key_spec(o.key), o.publish, o.worker, o.streams, o.isolate, o.tenant)
            found.append(Submission(QueryForm.OPERATOR, name, path, *of_query))
            continue
        form = QueryForm.QUERY if name in spec.queries else QueryForm.TEMPLATE
        q = spec.queries[name] if name in spec.queries else spec.templates[name]
        key = key_spec(q.key)
        found.append(Submission(form, name, q.sql, key, q.publish, q.worker, tenant=q.tenant))
    return found


def _changed_sources(checked: CheckedSpec, registry: Registry) -> list[str]:
    hosted = {name: spec for name, spec in registry.streams.items() if not spec.derived}
    changed = sorted(hosted.keys() ^ checked.spec.sources.keys())
    for name in hosted.keys() & checked.spec.sources.keys():
        source, before = checked.spec.sources[name], hosted[name]
        delay = duration_us(source.watermark, "watermark")
        columns = set(checked.schemas[name].names)
        same = (source.time, delay) == (before.time, before.delay_us)
        if not same or not columns.issuperset(before.schema.names):  # columns may be added
            changed.append(name)
    return changed
