"""Makes the recording anew: `python -m tests.interop.comparison.record`. Needs Java 17."""

from __future__ import annotations

import sys

from tests.interop.apache import ApacheKafka
from tests.interop.comparison import recording
from tests.interop.comparison.play import play
from tests.interop.comparison.settings import SETTINGS


def main() -> None:
    with ApacheKafka(nodes=1, properties=SETTINGS) as kafka:
        answers = play(kafka.bootstrap)
    recording.save(answers)
    sys.stderr.write(f"{len(answers)} answers in {recording.FILE.name}\n")


if __name__ == "__main__":
    main()
