"""The Java command lines of Apache Kafka: the node, its formatter and the command-line tools.

Nothing is started here. The class path travels in the environment, because with 92 jars in it every process
list and every error message would consist of little else.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.interop import jars

NODE = "kafka.Kafka"
FORMATTER = "kafka.tools.StorageTool"

# The scripts of the Kafka distribution, by the class that each one runs.
TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}

_REPOSITORY = Path(__file__).parents[2]
_LOGGING = Path(__file__).with_name("log4j2.properties")
_FLAGS = (
    "-Xms256m",
    "-Xmx512m",
    # A node of a test lives for seconds: quick to start beats quick in the long run.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    f"-Dlog4j2.configurationFile={_LOGGING}",
)


def problem() -> str | None:
    """What is missing to run Java, as one line that says what to install; None when all is there."""
    preflight = [sys.executable, str(_REPOSITORY / "tools" / "preflight.py"), "java"]
    checked = subprocess.run(preflight, capture_output=True, text=True, check=False)
    return None if checked.returncode == 0 else checked.stderr.strip()


def command(main_class: str, *arguments: str, log_level: str = "WARN") -> list[str]:
    """The command line that runs a class from the jars; it needs `environment` as well."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
    return [java, *_FLAGS, f"-Dottla.log.level={log_level}", main_class, *arguments]


def environment() -> dict[str, str]:
    """This process's environment with Kafka's class path, fetched first if need be."""
    return {**os.environ, "CLASSPATH": os.pathsep.join(map(str, jars.ensure()))}
