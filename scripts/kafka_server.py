"""A real Kafka broker on loopback, for tests and examples: one process, without ZooKeeper.

It has one listener without security and one that asks for a name and a password (SASL/PLAIN).
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from scripts import services

USER, PASSWORD = "evenflow", "secret"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_CLUSTER = "evenflowevenflowevenfg"  # 16 bytes in base64
_START_SECONDS = 300
_JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STARTED = "Kafka Server started"


class KafkaServer:
    """A broker of its own on free ports, with its data in a folder; a context manager."""

    def __init__(self, folder: Path) -> None:
        java = shutil.which("java")
        if java is None:
            raise services.UnavailableError("no Kafka broker: there is no Java")
        self._java = [java, *_JAVA_OPTIONS, "-cp", f"{services.kafka_server_jars()}/*"]
        folder.mkdir(parents=True, exist_ok=True)
        self._config, self._log = folder / "broker.properties", folder / "broker.log"
        plain, sasl, controller = _free_ports(3)
        self.address, self.secure_address = f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},SASL_PLAINTEXT://{self.secure_address},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address},"
            f"SASL_PLAINTEXT://{self.secure_address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_LOGIN} user_{USER}="'
            f'{PASSWORD}";',
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "auto.create.topics.enable": "false",
        }
        self._config.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        self._run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c")
        self._start()

    def _run_tool(self, *arguments: str) -> None:
        command = [*self._java, *arguments, str(self._config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"the Kafka broker cannot be set up: {done.stderr[-2000:]}")

    def _start(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._config)], stdout=log, stderr=log
            )
        until = time.monotonic() + _START_SECONDS
        while _STARTED not in self._log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                text = self._log.read_text(errors="replace")
                raise RuntimeError(f"the Kafka broker does not start: {text[-2000:]}")
            time.sleep(0.1)

    def __enter__(self) -> "KafkaServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def secure_options(self) -> dict[str, str]:
        """Options by which Spark reaches the listener that asks for a password."""
        return {
            "kafka.bootstrap.servers": self.secure_address,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{_LOGIN} username="{USER}" password="{PASSWORD}";',
        }

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        from kafka.admin import NewTopic

        self._admin("create_topics", [NewTopic(topic, partitions, 1)])

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of a topic's partitions."""
        from kafka.admin import NewPartitions

        self._admin("create_partitions", {topic: NewPartitions(partitions)})

    def _admin(self, method: str, argument: Any) -> None:
        from kafka import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            getattr(client, method)(argument)
        finally:
            client.close()

    def produce(self, topic: str, values: Iterable[bytes], partitions: int) -> None:
        """Write values in turns to the partitions; return when the broker has all of them."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.address, acks="all", linger_ms=5)
        sent = [
            producer.send(topic, value, partition=number % partitions)
            for number, value in enumerate(values)
        ]
        producer.flush()
        for future in sent:
            future.get(timeout=30)
        producer.close()

    def stop(self) -> None:
        """End the broker."""
        self._process.kill()
        self._process.wait()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
