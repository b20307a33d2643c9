"""Produces and consumes with an installed Ottla, on its own cluster, in every codec: is what was installed whole?

    python -I tools/smoke.py

Runs in an environment that has ottla and nothing else of this repository; with -I Python does not look beside this
file for it.
"""

from __future__ import annotations

import sys
from typing import Literal

import ottla
from ottla.broker import Cluster

_CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = (
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
)


def main() -> int:
    values = [b"order %d" % number for number in range(1000)]
    with Cluster(topics=dict.fromkeys(_CODECS, 3)) as cluster:
        for codec in _CODECS:
            with ottla.Client(cluster.bootstrap, compression_type=codec) as client:
                for number, value in enumerate(values):
                    client.produce(codec, value, key=b"%d" % number)
                client.flush()
                read = [record.value for record in client.consume(codec, start="earliest", stop="latest")]
            if sorted(read) != sorted(values):
                print(f"smoke: {codec}: {len(values)} records were written and {len(read)} read, or others")
                return 1
    print(f"smoke: ottla {ottla.__version__} from {ottla.__path__[0]}: {len(_CODECS) * len(values)} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
