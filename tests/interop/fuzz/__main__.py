"""`make fuzz-kafka`: random scripts against Apache Kafka and the embedded cluster.

Ends with 1 if they differ. `--script N` plays one script of the seed, as a finding names it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.interop.fuzz.campaign import Campaign
from tests.interop.fuzz.clusters import both


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.fuzz", description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, help="drawn, and printed, without it")
    parser.add_argument("--script", type=int, help="this script of the seed alone")
    parser.add_argument("--workers", type=int, default=4, help="scripts at a time (default: 4)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}: starting Apache Kafka and the embedded cluster", flush=True)
    with both(options.workers) as pairs:
        workers = [pair.first_difference for pair in pairs]
        campaign = Campaign(seed, workers, lambda line: print(line, flush=True))
        began = time.monotonic()
        if options.script is None:
            campaign.run(options.steps)
        else:
            campaign.play(options.script)
        took = time.monotonic() - began
    print(f"seed {seed}: {campaign.steps} steps in {took:.0f} s, {campaign.steps / took:.0f} a second")
    for signature, count in campaign.seen.most_common():
        print(f"{count:6} {signature}")
    if campaign.unrepeated:
        print(f"{len(campaign.unrepeated)} more were not seen again when the same script was played again")
    if not campaign.seen:
        print("no differences")
    return 1 if campaign.seen else 0


if __name__ == "__main__":
    sys.exit(main())
