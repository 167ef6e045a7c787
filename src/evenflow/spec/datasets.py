"""Datasets of a specification: their fields, and their rows as files that Spark can read."""

import hashlib
import json
import os
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow.parquet as pq
from pydantic import BaseModel, Field

from evenflow.datasets import DATASETS, Dataset
from evenflow.spec.dataclass_model import model_from_dataclass


def _dataset_model(kind: str) -> type[BaseModel]:
    tag: Any = (Literal[kind], Field(description="Which dataset."))
    return model_from_dataclass(DATASETS[kind], kind=tag)


DATASET_MODELS = {kind: _dataset_model(kind) for kind in DATASETS}
if TYPE_CHECKING:
    DatasetSpec = BaseModel
else:
    DatasetSpec = Annotated[reduce(or_, DATASET_MODELS.values()), Field(discriminator="kind")]


def build_dataset(model: BaseModel) -> Dataset:
    """Return the dataset that a model describes; InputError if its settings are invalid."""
    settings = model.model_dump()
    dataset: Dataset = DATASETS[settings.pop("kind")](**settings)
    return dataset


def ensure_dataset_files(model: BaseModel, part: str, folder: Path) -> Path:
    """Return the folder with the Parquet files of a stream or table; write them if missing.

    One file per batch, with increasing modification times: Spark reads files by age. The folder
    name contains a hash of the settings, so other settings never read old files.
    """
    settings = json.dumps(model.model_dump(), sort_keys=True)
    target = folder / f"{hashlib.sha256(settings.encode()).hexdigest()[:12]}-{part}"
    if target.is_dir():
        return target
    data = build_dataset(model)
    batches = data.stream_batches(part) if part in data.streams else [data.table_rows(part)]
    temporary = folder / f".{target.name}.{os.getpid()}"
    temporary.mkdir(parents=True)
    for index, rows in enumerate(batches):
        path = temporary / f"{index:06d}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (1e9 + index * 10, 1e9 + index * 10))
    temporary.rename(target)
    return target
