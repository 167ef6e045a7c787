"""Write a dataset as files: one a batch, in order, the same bytes of data for the same seed."""

import hashlib
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import BaseModel

from evenflow.spec.datasets import build_dataset


def ensure_dataset_files(model: BaseModel, part: str, folder: Path) -> Path:
    """Return the folder with a stream's or a table's files; write them if they are not there.

    Spark reads files by age: each is a little younger than the one before. The folder's name
    holds what the data follows from, so other settings never meet old files.
    """
    said = json.dumps(model.model_dump(), sort_keys=True)
    target = folder / f"{hashlib.sha256(said.encode()).hexdigest()[:12]}-{part}"
    if target.is_dir():
        return target
    data = build_dataset(model)
    batches = data.stream_batches(part) if part in data.streams else [data.table_rows(part)]
    passing = folder / f".{target.name}.{os.getpid()}"
    passing.mkdir(parents=True)
    for at, rows in enumerate(batches):
        path = passing / f"{at:06d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + at * 10, 1e9 + at * 10))
    passing.rename(target)
    return target
