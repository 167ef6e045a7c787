"""Speculation on a standalone cluster: Spark runs a second attempt beside a slow one.

Workers on different loopback addresses are different hosts for Spark, which starts no second
attempt on the host of the first one.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from tests.support.kill_driver import check_rows, start_program, wait_program, write_rows
from tests.support.poll import until

from evenflow.spark.protocol.ledger import Ledger
from evenflow.storage.file_store import FileStore

SPARK_HOME = str(Path(pyspark.__file__).parent)
FAST_HOST, SLOW_HOST = "127.0.0.2", "127.0.0.3"
SPECULATE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.executor.memory": "1g",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master, and a worker on each host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    deploy, web = "org.apache.spark.deploy", ["--webui-port", "0"]
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), *web]
    workers = [
        [f"{deploy}.worker.Worker", "--host", host, *web, "--cores", "1", "--memory", "1g",
         "--work-dir", str(tmp_path / host), f"spark://127.0.0.1:{port}"]
        for host in (FAST_HOST, SLOW_HOST)
    ]  # fmt: skip
    spark_class = f"{SPARK_HOME}/bin/spark-class"
    environment = {**os.environ, "SPARK_HOME": SPARK_HOME, "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "cluster.log").open("ab") as log:
        started = [
            subprocess.Popen(
                [spark_class, *command], env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )
            for command in (master, *workers)
        ]  # fmt: skip
    yield f"spark://127.0.0.1:{port}"
    for process in started:
        process.terminate()  # a worker ends its executors
    for process in started:
        process.wait(timeout=60)


def python_processes(host: str, work: Path) -> list[int]:
    """Return the Python daemon of a host's executor and the processes it has forked."""
    parents, executors = {}, []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            is_executor = "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
            # Of this cluster: its executor runs in the folder of its worker.
            if is_executor and host in words and (folder / "cwd").resolve().is_relative_to(work):
                executors.append(pid)
    daemons = [pid for pid, parent in parents.items() if parent in executors]
    return [*daemons, *(pid for pid, parent in parents.items() if parent in daemons)]


def speculative_tasks(folder: Path) -> list[dict[str, object]]:
    """Return what Spark's event log says of the second attempts that ended with success."""
    lines = [line for log in folder.rglob("*") if log.is_file() for line in log.open()]
    events = [json.loads(line) for line in lines if "SparkListenerTaskEnd" in line]
    return [
        event["Task Info"]
        for event in events
        if event["Task Info"]["Speculative"] and event["Task End Reason"]["Reason"] == "Success"
    ]


@pytest.mark.slow
def test_second_attempts_beside_slow_ones_change_no_row(cluster: str, tmp_path: Path) -> None:
    """All Python processes of one host stand still again and again while batches run."""
    write_rows(tmp_path)
    settings = tmp_path / "conf/spark-defaults.conf"
    for folder in ("conf", "events"):
        (tmp_path / folder).mkdir()
    events = {"spark.eventLog.dir": (tmp_path / "events").as_uri()}
    settings.write_text("".join(f"{k} {v}\n" for k, v in {**SPECULATE, **events}.items()))
    program = start_program(tmp_path, cluster, SPARK_CONF_DIR=str(settings.parent))
    ledger = Ledger(FileStore(str(tmp_path / "checkpoint")))

    def last_batch() -> int:
        last = ledger.last_entry()
        return -1 if last is None else last.batch

    def is_over() -> bool:
        return program.poll() is not None

    stopped: set[int] = set()
    try:
        until(lambda: last_batch() > 0 or is_over())
        for _ in range(3):
            before, begun = last_batch(), time.monotonic()
            while last_batch() < before + 2 and time.monotonic() < begun + 60 and not is_over():
                for process in python_processes(SLOW_HOST, tmp_path):
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGSTOP)
                        stopped.add(process)
                time.sleep(0.05)
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
    finally:
        for process in stopped:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        assert wait_program(program) == 0, (tmp_path / "log").read_text()[-2000:]
    attempts = speculative_tasks(tmp_path / "events")
    assert attempts, "no second attempt was needed"
    assert {attempt["Host"] for attempt in attempts} == {FAST_HOST}
    check_rows(tmp_path)
