"""Bring modules that stand beside a specification to the workers, wherever they run."""

import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.spec import CheckedSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship_modules(checked: CheckedSpec, spark: "SparkSession") -> None:
    """Send the modules of its operators; what is installed is installed there too."""
    tops = {o.path.partition(":")[0].partition(".")[0] for o in checked.spec.operators.values()}
    for top in sorted(tops):
        place = _module_in_folder(top, checked.folder)
        if place is None:
            continue
        if place.is_dir():
            target = Path(tempfile.mkdtemp(prefix="evenflow-")) / top
            place = Path(shutil.make_archive(str(target), "zip", checked.folder, top))
        spark.sparkContext.addPyFile(str(place))


def _module_in_folder(top: str, folder: Path) -> Path | None:
    """Return a module's file or a package's folder, if it stands in the folder."""
    found = sys.modules[top].__spec__ if top in sys.modules else find_spec(top)
    if found is None or found.origin is None:
        return None
    origin = Path(found.origin)
    place = origin.parent if origin.name == "__init__.py" else origin
    return place if place.parent == folder else None
