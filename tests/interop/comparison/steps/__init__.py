"""The script: what every API is asked. The order matters where answers are about the whole cluster."""

from tests.interop.comparison.script import Section
from tests.interop.comparison.steps import (
    api_versions,
    cluster,
    config_changes,
    configs,
    fetch_sessions,
    fetching,
    malformed,
    metadata,
    offsets,
    produce,
    producers,
    topic_changes,
    topics,
)

SECTIONS: tuple[Section, ...] = (
    # Before any other topic is made: it asks for all of them.
    metadata.SECTION,
    api_versions.SECTION,
    malformed.SECTION,
    topics.SECTION,
    topic_changes.DELETE,
    topic_changes.GROW,
    produce.APPENDED,
    produce.REFUSED,
    produce.CONFIGURED,
    producers.IDS,
    producers.SEQUENCES,
    producers.DESCRIBED,
    fetching.SECTION,
    fetch_sessions.SECTION,
    offsets.LISTED,
    offsets.EPOCHS,
    offsets.DELETED,
    configs.SECTION,
    config_changes.INCREMENTAL,
    config_changes.OF_BROKERS,
    config_changes.WHOLE,
    cluster.DESCRIBED,
    cluster.PARTITIONS,
    cluster.COORDINATORS,
)
