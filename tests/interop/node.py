"""One node of Apache Kafka, broker and controller in one: its folder, its settings, its process.

What makes several nodes a cluster, and when they serve, is `apache`'s business. A node that is not running
can be started again: it keeps its folder, its id and its ports.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.interop import java
from tests.interop.supervise import Supervised

HOST = "127.0.0.1"
_LOG_LINES = 25
# What names a reason: records of these levels and the heads of stack traces, not their frames.
_REASON = re.compile(r"^\S.*(\b(WARN|ERROR|FATAL)\b|Exception\b|Error\b)")


class NodeError(RuntimeError):
    """A node failed; the message carries the reason from its log."""


class Node:
    """The node `node_id`, in a folder of its own."""

    def __init__(self, node_id: int, folder: Path, port: int, quorum_port: int, directory_id: str) -> None:
        self.node_id = node_id
        self.address = f"{HOST}:{port}"
        self.controller_address = f"{HOST}:{quorum_port}"
        self.directory_id = directory_id
        self.log = folder / "server.log"
        self.data = folder / "data"
        self._folder = folder
        self._settings = folder / "server.properties"
        self._process: Supervised | None = None

    def configure(self, properties: Mapping[str, str]) -> None:
        """Write the node's settings: the given ones and those that only this node has."""
        own = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{self.controller_address}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
        }
        self._folder.mkdir()
        escaped = ((name, value.replace("\\", "\\\\")) for name, value in {**own, **properties}.items())
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in escaped))

    def launch_format(self, cluster_id: str, controllers: str) -> None:
        """Begin to prepare the data folder; `finish_format` waits for the end."""
        settings = str(self._settings)
        self._launch(
            java.FORMATTER, "format", "-t", cluster_id, "-c", settings, "--initial-controllers", controllers
        )

    def finish_format(self, within: float) -> None:
        """Wait until the data folder is ready."""
        if self._wait(within) != 0:
            raise self.failure("could not be formatted")
        self.close()

    def launch(self) -> None:
        """Start the node, without waiting until it serves."""
        if self._process is not None:
            raise ValueError(f"node {self.node_id} is running already")
        self._launch(java.NODE, str(self._settings))

    @property
    def pid(self) -> int:
        """The process id of the node's JVM."""
        return self._running().pid

    @property
    def is_up(self) -> bool:
        """Whether the node was started and neither stopped nor killed; it may have died all the same."""
        return self._process is not None

    def check_alive(self) -> None:
        """Raise, with the reason from the log, if the process has ended by itself."""
        code = self._running().poll()
        if code is not None:
            raise self.failure(f"ended by itself with exit code {code}")

    def stop(self, within: float) -> None:
        """Shut the node down in order: it hands its leaderships over first."""
        self._running().terminate()
        try:
            self._wait(within)
        finally:
            self.close()

    def kill(self) -> None:
        """End the node with SIGKILL, as a system short of memory would, and wait until it is gone."""
        self._running().kill()
        self.close()

    def close(self) -> None:
        """End whatever still runs; does nothing for a node that is down."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def failure(self, what: str) -> NodeError:
        """An error with the log's reasons, which come long before its end, and that end."""
        lines = self.log.read_text(errors="replace").splitlines()
        reasons = [line for line in lines if _REASON.search(line)]
        excerpt = "\n".join(
            ["reasons in its log:", *reasons[-_LOG_LINES:], "end of its log:", *lines[-_LOG_LINES:]]
        )
        return NodeError(f"Apache Kafka node {self.node_id} {what}; {excerpt}")

    def _launch(self, main_class: str, *arguments: str) -> None:
        command = java.command(main_class, *arguments, log_level="INFO")
        with self.log.open("ab") as log:
            self._process = Supervised(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=java.environment()
            )

    def _wait(self, within: float) -> int:
        try:
            return self._running().wait(within)
        except subprocess.TimeoutExpired:
            raise self.failure(f"did not end within {within:g} s") from None

    def _running(self) -> Supervised:
        if self._process is None:
            raise ValueError(f"node {self.node_id} is not running")
        return self._process
