"""Metadata: by name, by id, all topics, and topics that come into being by being asked for."""

from ottla.wire import ZERO_UUID
from ottla.wire.messages import MetadataRequest
from tests.interop.comparison.requests import UNKNOWN_ID, given, is_led, just, metadata, metadata_by_id
from tests.interop.comparison.script import ask, section

TOPIC = "metadata-three"
LONG = "l" * 250

SECTION = section(
    "metadata",
    ask("no topics at all", just(MetadataRequest(topics=[])), 1, 4, 12, 13),
    given(TOPIC, partitions=3),
    given("metadata-one"),
    ask("one topic", metadata(TOPIC, create=True), *range(14)),
    ask("all topics", just(MetadataRequest(topics=[])), 0),
    ask("all topics", just(MetadataRequest(topics=None)), 1, 5, 9, 13),
    ask("two topics", metadata(TOPIC, "metadata-one"), 4, 12),
    ask("one topic twice", metadata(TOPIC, TOPIC), 4, 12),
    ask("an unknown topic", metadata("metadata-none"), 4, 9, 12, 13),
    ask("an unknown topic and a known one", metadata("metadata-none", "metadata-one"), 12),
    ask("a name with a blank", metadata("meta data"), 4, 12),
    ask("a name with a blank, to be created", metadata("meta data", create=True), 4, 12),
    ask("an empty name", metadata(""), 4, 12),
    ask("a name of 250 letters", metadata(LONG), 12),
    ask("a name of two dots", metadata(".."), 12),
    ask("by id", metadata_by_id(TOPIC), 12, 13),
    ask("by id before version 12", metadata_by_id(TOPIC), 10, 11),
    ask("by id and name", metadata_by_id(TOPIC, TOPIC), 12),
    ask("by id and the wrong name", metadata_by_id(TOPIC, "metadata-one"), 12),
    ask("by an unknown id", metadata_by_id(UNKNOWN_ID), 12, 13),
    ask("by the zero id and no name", metadata_by_id(ZERO_UUID), 10, 12),
    ask(
        "operations on topics",
        just(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
            )
        ),
        8,
        13,
    ),
    ask(
        "operations on the cluster",
        just(MetadataRequest(topics=[], include_cluster_authorized_operations=True)),
        8,
        10,
    ),
    ask("a new topic is asked for", metadata("metadata-auto", create=True), 4),
    ask("a new topic is there", metadata("metadata-auto"), 12, until=is_led),
    ask("a new topic is asked for by an old client", metadata("metadata-auto-old", create=True), 1),
    ask("a new topic of an old client is there", metadata("metadata-auto-old"), 12, until=is_led),
)
