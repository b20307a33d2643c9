"""The process of one client; see the package."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import sys

from bench.clients.job import Job

CLIENTS = {
    "ottla": "ottla_",
    "confluent": "confluent",
    "aiokafka": "aiokafka_",
    "kafka-python": "kafka_python",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("client", choices=list(CLIENTS))
    parser.add_argument("--bootstrap", required=True)
    options = parser.parse_args()
    client = importlib.import_module(f"bench.clients.{CLIENTS[options.client]}")
    for line in sys.stdin:
        measured = client.run(options.bootstrap, Job(**json.loads(line)))
        print(json.dumps(dataclasses.asdict(measured)), flush=True)


if __name__ == "__main__":
    main()
