"""Checks of the user's Spark session, before anything starts on it."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import InputError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC_ZONES = ("utc", "etc/utc", "z", "gmt", "etc/gmt", "+00:00")
_PROBE_SECONDS = 120


def refuse_connect(spark: "SparkSession") -> None:
    """Refuse a session of Spark Connect: the driver runs here, next to the JVM."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "this is a Spark Connect session, but a flow needs a classic one: its driver commits "
            "each batch in this process; use SparkSession.builder.master(...), not remote(...)"
        )


def check_settings(spark: "SparkSession") -> None:
    """Refuse a session whose own answers would differ: queries run in UTC and ANSI mode."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if zone.lower() not in _UTC_ZONES:
        raise InputError(
            f"the session's time zone is {zone}, but queries run in UTC; "
            'set spark.conf.set("spark.sql.session.timeZone", "UTC")'
        )
    if str(spark.conf.get("spark.sql.ansi.enabled")).lower() != "true":
        raise InputError(
            "the session is not in ANSI mode, but queries are; "
            'set spark.conf.set("spark.sql.ansi.enabled", "true")'
        )
    if str(spark.conf.get("spark.sql.chunkBase64String.enabled", "true")).lower() != "true":
        raise InputError(
            "the session's base64() writes one line, but that of queries breaks it as MIME does; "
            'set spark.conf.set("spark.sql.chunkBase64String.enabled", "true")'
        )


def use_interpreter(spark: "SparkSession") -> None:
    """Make Spark's Python processes run an interpreter that has Evenflow, or refuse.

    Without `PYSPARK_PYTHON` or `spark.pyspark.python` Spark runs the `python3` of the PATH, which
    is another one in a virtual environment that is not activated: then this interpreter is used.
    """
    context = spark.sparkContext
    chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if not chosen:
        context.pythonExec = sys.executable
    elif str(context.master).startswith("local"):  # elsewhere it is a path on other machines
        check_interpreter(chosen)


def check_interpreter(chosen: str) -> None:
    """Refuse an interpreter that is missing or has no Evenflow of this version."""
    found = shutil.which(chosen)
    if found is None:
        raise SetupError(
            f"PYSPARK_PYTHON is {chosen!r}, but there is no such program; unset it, or set it to "
            f"{sys.executable}"
        )
    if Path(found).absolute().parent == Path(sys.executable).parent:  # this virtual environment
        return
    program = "import evenflow, pyarrow, duckdb; print(evenflow.__version__)"
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that Spark would run
            [found, "-c", program],
            capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"PYSPARK_PYTHON is {chosen!r}, which does not run: {error}") from None
    if done.returncode:
        cause = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise SetupError(
            f"PYSPARK_PYTHON is {chosen!r}, which cannot import Evenflow ({cause}); unset it, or "
            f"set it to {sys.executable}"
        )


def processes_per_machine(spark: "SparkSession") -> int:
    """Return how many worker processes share a machine; 0 if only the machine knows."""
    context = spark.sparkContext
    if re.fullmatch(r"local(\[.*\])?", str(context.master)):
        return context.defaultParallelism
    return int(context.getConf().get("spark.executor.cores", "0"))


def stop_progress_bar(spark: "SparkSession") -> None:
    """Stop Spark's progress bar: PySpark shows one, and for short batches it only flickers."""
    with contextlib.suppress(Exception):  # no public API: where it is missing, bars are shown
        bar = spark.sparkContext._jsc.sc().progressBar()
        if bar.isDefined():
            bar.get().stop()
