"""Kafka's own command-line tools, run against any cluster."""

from __future__ import annotations

from subprocess import CompletedProcess

from tests.interop import java, supervise

PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


def run(
    bootstrap: str, name: str, *arguments: str, text: str = "", within: float = 120.0
) -> CompletedProcess[str]:
    """`run(bootstrap, "kafka-topics", "--list")`, with `text` as the standard input."""
    main_class = java.TOOLS.get(name, name)
    # In front, because a tool with subcommands takes it nowhere else.
    command = java.command(main_class, "--bootstrap-server", bootstrap, *arguments)
    return supervise.run(command, text=text, within=within, env=java.environment())


def output(bootstrap: str, name: str, *arguments: str, text: str = "") -> str:
    """What a tool says that succeeds."""
    done = run(bootstrap, name, *arguments, text=text)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
