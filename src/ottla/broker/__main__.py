"""`python -m ottla.broker`, and `ottla broker`: a cluster by itself, for clients in any language, until Ctrl-C.

Behind `dump` comes another command: what the files of a log directory hold (ottla/broker/dump).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import io
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

from ottla.broker.cluster.cluster import HOST, AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.cluster.releases import RELEASES
from ottla.broker.dump import command as dump_command
from ottla.errors import KafkaError
from ottla.runtime import new_loop

_PROGRAM = "python -m ottla.broker"
_DUMP = "dump"
_EXAMPLES = """examples:
  {program}                                one broker on port 9092
  {program} --brokers 3 --topic orders:6   three brokers, 9092 to 9094, and a topic
  {program} --port 0 --log requests        a free port, and every request on standard error
  {program} --data-dir ./kafka             what it holds is there again at the next start
  {program} dump DIRECTORY                 what the files of a log directory hold; see dump --help
"""
_LEVELS = {
    "none": None,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "requests": logging.DEBUG,
}


def main(arguments: Sequence[str] | None = None, program: str = _PROGRAM) -> int:
    """Parses the command line and runs the cluster; `program` is what its help and its errors call it."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] == _DUMP:
        return _dump(arguments[1:], f"{program} {_DUMP}")
    parser = _parser(program)
    options = parser.parse_args(arguments)
    _set_up_logging(options.log)
    ports = () if options.port == 0 else range(options.port, options.port + options.brokers)
    try:
        cluster = AsyncCluster(
            options.brokers,
            topics=dict(options.topic),
            config=dict(options.config),
            racks=options.rack,
            ports=list(ports),
            host=options.host,
            max_versions=options.release,
            data_dir=options.data_dir or None,
        )
        _run(_serve(cluster))
    except (ValueError, KafkaError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except OSError as error:
        parser.exit(
            1,
            f"{parser.prog}: --host {options.host} --port {options.port}: {error}. Another --port, or --port 0 for a "
            "free one, may help.\n",
        )
    return 0


def _dump(arguments: Sequence[str], program: str) -> int:
    def write(line: str) -> None:
        sys.stdout.write(f"{line}\n")

    def complain(line: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"{line}\n")

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Records may hold what the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = dump_command.run(arguments, program, write, complain)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, `head` for one, has enough. The interpreter flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="A Kafka-compatible cluster for tests and local work. It is in memory, and what it holds is gone "
        "when it ends, unless --data-dir names a directory to keep it in.",
        epilog=_EXAMPLES.format(program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers (default: 1)")
    parser.add_argument("--host", default=HOST, help=f"the interface to listen on (default: {HOST})")
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        help="of the first broker, the others follow; 0: free ports (default: 9092)",
    )
    parser.add_argument(
        "--topic",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="a topic to create; may be repeated",
    )
    parser.add_argument(
        "--config",
        type=_config,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker config by Kafka's name; may be repeated",
    )
    parser.add_argument(
        "--data-dir",
        action="append",
        default=[],
        metavar="PATH",
        help="keep everything below this directory, for the next start; may be repeated, for several log directories "
        "per broker",
    )
    parser.add_argument(
        "--rack", action="append", default=[], help="the rack of a broker; once per broker, or not at all"
    )
    parser.add_argument(
        "--release",
        choices=RELEASES,
        metavar="VERSION",
        help=f"play an older Kafka: {RELEASES[0]} to {RELEASES[-1]}",
    )
    parser.add_argument(
        "--log",
        choices=_LEVELS,
        default="warn",
        help="what goes to standard error; `requests` adds every request and response (default: warn)",
    )
    return parser


def _topic(text: str) -> tuple[str, TopicSpec]:
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdigit() for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS"
        )
    partitions, replicas = [*map(int, numbers), *(1, -1)[len(numbers) :]]
    return name, TopicSpec(partitions, replicas)


def _config(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


def _set_up_logging(level: str) -> None:
    logger = logging.getLogger("ottla")
    number = _LEVELS[level]
    if number is None:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(number)
    # Requests are many: they have a level of their own.
    logging.getLogger("ottla.broker.requests").setLevel(
        logging.DEBUG if level == "requests" else logging.WARNING
    )


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


async def _serve(cluster: AsyncCluster) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with cluster:
        # What there is now stays until the end. A collector that went through all of it now and then would make
        # every client wait for some milliseconds.
        gc.freeze()
        # On standard output and by itself, so that a script can read it.
        print(cluster.bootstrap, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main())
