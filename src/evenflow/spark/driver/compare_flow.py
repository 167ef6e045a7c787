"""Compare what a flow declares with what its checkpoint hosts. Pure."""

from collections.abc import Iterable, Set

from evenflow.errors import InputError
from evenflow.names import join_names
from evenflow.spark.driver.replacement import next_name
from evenflow.spark.driver.submission import Submission
from evenflow.spark.driver.widen_source import is_widened
from evenflow.spark.protocol.registry import Registry


def check_hosted(
    hosted: Registry, declared: Registry, sources: Set[str], submissions: Iterable[Submission]
) -> None:
    """Refuse to continue a checkpoint with other sources, or other queries of the same names."""
    for name, spec in hosted.streams.items():
        if not spec.derived and not is_widened(spec, declared.streams.get(name)):
            raise InputError(
                f"source {name!r} is in the checkpoint with different columns, time or "
                "watermark, or is not declared; declare it as before, perhaps with more columns, "
                "or start with a new checkpoint"
            )
    if changed := [n for n, f in declared.functions.items() if hosted.functions.get(n) != f]:
        raise InputError(
            f"function {changed[0]!r} is not in the checkpoint, or with another path or type; "
            "declare it as before or start with a new checkpoint"
        )
    added = sources - hosted.streams.keys()
    if added:
        raise InputError(
            f"source {join_names(added)} is not in the checkpoint, and Spark cannot add a "
            "source to a running stream; start with a new checkpoint"
        )
    for submission in submissions:
        before = hosted.queries.get(submission.name)
        following = hosted.queries.get(next_name(submission.name), before)
        definitions = [query for query in (before, following) if query is not None]
        if before and not any(map(submission.is_same_definition, definitions)):
            raise InputError(
                f"query {submission.name!r} exists in the checkpoint with a different "
                f"definition: {before.text!r}; start with that one and replace it while the run "
                "lasts, or cancel it first, or use another name"
            )
