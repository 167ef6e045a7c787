"""Ship Python modules that are in the folder of a spec to the workers."""

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
    """Ship modules of operators and functions; installed ones are expected on the workers."""
    paths = [operator.path for operator in checked.spec.operators.values()]
    paths += [function.path for function in checked.spec.functions.values()]
    modules = {path.partition(":")[0].partition(".")[0] for path in paths}
    for top in sorted(modules):
        place = _module_in_folder(top, checked.folder)
        if place is None:
            continue
        if place.is_dir():
            target = Path(tempfile.mkdtemp(prefix="evenflow-")) / top
            place = Path(shutil.make_archive(str(target), "zip", checked.folder, top))
        spark.sparkContext.addPyFile(str(place))


def _module_in_folder(top: str, folder: Path) -> Path | None:
    """Return the file of a module or the folder of a package, if it is in this folder."""
    spec = sys.modules[top].__spec__ if top in sys.modules else find_spec(top)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    place = origin.parent if origin.name == "__init__.py" else origin
    return place if place.parent == folder else None
