"""The index of committed results: one small file per batch, merged into blocks over time.

The index of a batch is written before the batch is committed, so only batches before the head of
the ledger count. Only fully committed, aligned blocks are merged. A merged file replaces its parts;
if a crash left both, the longer one counts.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from evenflow.spark.protocol.report import Report
from evenflow.storage.bundle import PartRef
from evenflow.storage.file_store import FileStore

INDEX_FOLDER = "results/index"
MERGE_BLOCKS = (64, 64 * 64)
_READ_ATTEMPTS = 3

# results or poison -> query uid or stream -> [file, offset, length, checksum, rows]
IndexRecord = dict[str, dict[str, list[Any]]]


def batch_of_file(file: str) -> int:
    """Return the batch whose results a file holds.

    >>> batch_of_file("results/data/000000000012-3-0-abc")
    12
    """
    return int(file.rpartition("/")[2][:12])


class IndexSpan(NamedTuple):
    """An index file: the batches it covers, from first to last."""

    first: int
    last: int

    @property
    def file(self) -> str:
        """The name of the file."""
        only = f"{INDEX_FOLDER}/{self.first:012d}"
        return only if self.first == self.last else f"{only}-{self.last:012d}"


class ResultsIndex:
    """Finds the parts of files that hold results and poison rows."""

    def __init__(self, store: FileStore) -> None:
        self.store = store

    def write(self, batch: int, reports: Iterable[Report]) -> None:
        """Write the index of one batch; an empty one replaces that of a failed attempt."""
        index = _empty_index()
        for report in reports:
            for kind, parts in (("results", report.results), ("poison", report.poison)):
                for name, (part, rows) in parts.items():
                    index[kind].setdefault(name, []).append([*part, rows])
        self.store.write_record(IndexSpan(batch, batch).file, index)

    def parts(self, kind: str, name: str, first: int, end: int) -> list[PartRef]:
        """Return a query's results of the batches from `first` to before `end`.

        With kind `poison`, a stream's poison rows.
        """
        parts = [
            PartRef(*place)
            for index in self._read_indexes(first, end)
            for *place, _ in index[kind].get(name, ())
        ]
        return [part for part in parts if first <= batch_of_file(part.file) < end]

    def referenced_files(self, first: int, end: int) -> set[str]:
        """Return the files with results of the batches from `first` to before `end`."""
        indexes = [kind for index in self._read_indexes(first, end) for kind in index.values()]
        return {ref[0] for kind in indexes for refs in kind.values() for ref in refs}

    def merge(self, head: int) -> None:
        """Merge the indexes of every fully committed block."""
        for size in MERGE_BLOCKS:
            blocks: dict[int, list[IndexSpan]] = {}
            for span in self.spans():
                if span.last // size == span.first // size:
                    blocks.setdefault(span.first // size, []).append(span)
            for at, spans in blocks.items():
                if len(spans) > 1 and (at + 1) * size <= head:
                    self._merge_block(IndexSpan(at * size, (at + 1) * size - 1), spans)

    def spans(self) -> list[IndexSpan]:
        """Return the index files in order, without those that a longer one covers."""
        kept: list[IndexSpan] = []
        for span in sorted(self._all_spans(), key=lambda s: (s.first, -s.last)):
            if not kept or span.last > kept[-1].last:
                kept.append(span)
        return kept

    def _merge_block(self, block: IndexSpan, spans: list[IndexSpan]) -> None:
        merged = _empty_index()
        for span in spans:
            for kind, names in self.store.read_record(span.file, IndexRecord).items():
                for name, parts in names.items():
                    merged[kind].setdefault(name, []).extend(parts)
        self.store.write_record(block.file, merged)
        self.store.delete(
            span.file
            for span in self._all_spans()
            if span != block and block.first <= span.first and span.last <= block.last
        )

    def _all_spans(self) -> list[IndexSpan]:
        return [
            IndexSpan(int(name[:12]), int(name[-12:]))
            for name in self.store.list_names(INDEX_FOLDER)
        ]

    def _read_indexes(self, first: int, end: int) -> list[IndexRecord]:
        """Return the indexes of the batches from `first` to before `end`; all must be there."""
        for _ in range(_READ_ATTEMPTS):
            spans = [s for s in self.spans() if s.last >= first and s.first < end]
            starts = [first, *(span.last + 1 for span in spans)]
            missing = [at for at, span in zip(starts, spans, strict=False) if span.first > at]
            missing += [starts[-1]] if starts[-1] < end else []
            try:
                indexes = [self.store.read_record(span.file, IndexRecord) for span in spans]
            except FileNotFoundError:  # merged in the meantime
                continue
            if not missing:
                return indexes
        raise self.store.damage(IndexSpan(missing[0], missing[0]).file, "it is missing")


def _empty_index() -> IndexRecord:
    return {"results": {}, "poison": {}}
