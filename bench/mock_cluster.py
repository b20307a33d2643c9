"""librdkafka's mock cluster as a process: prints its address and serves until standard input ends."""

from __future__ import annotations

import argparse
import sys

from confluent_kafka import Producer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=1)
    options = parser.parse_args()
    host = Producer(
        {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": options.brokers, "log_level": 0}
    )
    brokers = host.list_topics(timeout=10).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
