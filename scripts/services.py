"""Fetches what some tests and examples need: servers, Spark's connectors, tools for deploy/.

Usage: python scripts/services.py [s3 | postgres | kafka | helm | promtool]

Jars come from Maven Central by their coordinates, through the Ivy that PySpark brings along, into
`~/.cache/evenflow/services`. S3Proxy (https://github.com/gaul/s3proxy) is an S3 server in one jar:
it stores objects as files, checks signatures, and enforces conditional writes (412 if the key
exists, exactly one of many writers wins). MinIO and SeaweedFS from source take minutes to build.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

S3_SERVER = "org.gaul:s3proxy:4.1.0:jar-with-dependencies"
KAFKA_SERVER = ("org.apache.kafka:kafka_2.13:4.1.2", "org.slf4j:slf4j-simple:1.7.36")
_SINK_JARS = {
    "jdbc": ("postgresql-42.7.7", ("org.postgresql:postgresql:42.7.7:",)),
    "iceberg": (
        "iceberg-4.1-1.12.0",
        ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0:",),
    ),
    "delta": (
        "delta-4.3.1",
        ("io.delta:delta-spark_2.13:4.3.1:", "io.delta:delta-storage:4.3.1:"),
    ),
}
_GO_PROGRAMS = {
    "helm": ("helm.sh/helm/v3/cmd/helm", "v3.19.0"),
    "promtool": ("github.com/prometheus/prometheus/cmd/promtool", "v0.307.0"),
}
TIMEOUT_SECONDS = 300
GO_SECONDS = 600
_IVY_FILE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="evenflow" module="services"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_DEPENDENCY = """
    <dependency org="{org}" name="{name}" rev="{version}" conf="default->runtime(*),master(*)"/>"""
_ONE_JAR = """
    <dependency org="{org}" name="{name}" rev="{version}" conf="default->master" transitive="false">
      <artifact name="{name}" type="jar" ext="jar"{classifier}/>
    </dependency>"""


class UnavailableError(RuntimeError):
    """A service cannot be had here; the message says why."""


def cache_folder() -> Path:
    """Return where services are kept: outside the repository, so that checkouts share them."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "evenflow" / "services"


def s3_server_jar() -> Path:
    """Return the jar of the S3 server; fetch it the first time (55 MB)."""
    return next(fetch_jars("s3proxy-4.1.0", S3_SERVER).glob("s3proxy*.jar"))


def kafka_server_jars() -> Path:
    """Return the folder of a Kafka broker's jars; fetch them the first time."""
    return fetch_jars("kafka-4.1.2", *KAFKA_SERVER)


def kafka_connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector and of Avro; fetch them the first time.

    There is none for Spark 4.3 yet: the one for 4.2 runs there. Its own list of dependencies names
    a version of the token provider that was never published, so what it needs is listed here.
    """
    import pyspark

    version = "4.1.2" if pyspark.__version__.startswith("4.1.") else "4.2.0"
    folder = fetch_jars(
        f"spark-kafka-{version}",
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}:",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0:",
        "org.apache.kafka:kafka-clients:3.9.1:",
        "org.apache.commons:commons-pool2:2.12.1:",
        "org.apache.spark:spark-avro_2.13:4.1.1:",
    )
    return sorted(folder.glob("*.jar"))


def sink_jars(name: str) -> list[Path]:
    """Return the jars of a format that Spark writes, iceberg and delta for Spark 4.1."""
    folder, coordinates = _SINK_JARS[name]
    return sorted(fetch_jars(folder, *coordinates).glob("*.jar"))


def go_program(name: str) -> Path:
    """Return a program that is written in Go; build it the first time, in minutes."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    package, version = _GO_PROGRAMS[name]
    program = cache_folder() / f"{name}-{version}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise UnavailableError(f"no {name}: neither it nor Go is installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=program.parent) as scratch:
        # In a module of its own: `go install` refuses packages whose module replaces others.
        for command in (
            ["mod", "init", "services"],
            ["get", f"{package}@{version}"],
            ["build", "-o", f"{scratch}/{name}", package],
        ):
            try:
                done = subprocess.run(
                    ["go", *command], cwd=scratch, capture_output=True, text=True, check=False,
                    timeout=GO_SECONDS,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise UnavailableError(f"no {name}: Go took too long to build it") from None
            if done.returncode:
                reason = done.stderr.strip().splitlines()[-1][:200]
                raise UnavailableError(f"no {name}: go {command[0]}: {reason}")
        Path(scratch, name).rename(program)
    return program


def postgres_bin() -> Path:
    """Return the folder of PostgreSQL's programs; install the Debian package if that is allowed."""
    for attempt in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if found:
            return found[-1].parent
        if attempt == 0 and shutil.which("apt-get") and os.geteuid() == 0:
            for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
                subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True)
    raise UnavailableError("no PostgreSQL: install the package postgresql")


def fetch_jars(folder_name: str, *coordinates: str) -> Path:
    """Return a folder with jars, given as group:name:version, and what they need.

    With a classifier, which may be empty (group:name:version:), it is that jar alone.
    """
    folder = cache_folder() / folder_name
    if folder.is_dir():
        return folder
    if shutil.which("java") is None:
        raise UnavailableError(f"no {folder_name}: there is no Java")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as scratch:
        ivy_file = Path(scratch, "ivy.xml")
        dependencies = "".join(_dependency(text) for text in coordinates)
        ivy_file.write_text(_IVY_FILE.format(dependencies=dependencies))
        pattern = f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"
        command = [
            "java", "-jar", str(_ivy_jar()), "-ivy", str(ivy_file), "-types", "jar", "bundle",
            "-cache", str(cache_folder() / "ivy"), "-retrieve", pattern,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"no {folder_name}: Maven Central does not answer") from None
        if done.returncode or not any(Path(scratch, "jars").glob("*.jar")):
            reason = _first_problem(done.stdout + done.stderr)
            raise UnavailableError(f"no {folder_name}: Maven Central: {reason}")
        try:
            Path(scratch, "jars").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def _dependency(text: str) -> str:
    org, name, version, *classifier = text.split(":")
    form = _ONE_JAR if classifier else _DEPENDENCY
    attribute = f' m:classifier="{classifier[0]}"' if any(classifier) else ""
    return form.format(org=org, name=name, version=version, classifier=attribute)


def _ivy_jar() -> Path:
    import pyspark

    return next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))


def _first_problem(output: str) -> str:
    words = ("not found", "failed", "Exception", "FAILED")
    lines = (line.strip(" :\t") for line in output.splitlines())
    return next((line for line in lines if any(w in line for w in words)), "no answer")[:200]


if __name__ == "__main__":
    FETCHERS: dict[str, Callable[[], Path]] = {
        "s3": s3_server_jar,
        "postgres": postgres_bin,
        "kafka": kafka_server_jars,
        "helm": partial(go_program, "helm"),
        "promtool": partial(go_program, "promtool"),
    }
    try:
        for service in sys.argv[1:] or ["s3"]:
            print(FETCHERS[service]())
    except UnavailableError as error:
        sys.exit(str(error))
