"""What a script has learnt from the answers so far: the ids that each broker chooses for itself.

Requests are built from it, and answers are normalised with it: an id that differs from run to run becomes a label
that does not. Nothing here sends or compares anything.
"""

from __future__ import annotations

import re

from ottla.wire import ZERO_UUID, Uuid, WireStruct

_PRODUCER_IN_TEXT = re.compile(r"(?<=[Pp]roducer )\d+|(?<=producer id )\d+|(?<=producerId=)\d+")


class World:
    """One broker as one run of the script knows it."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        """What steps have remembered by name: a session's id, a producer's id."""
        self.step = ""
        """The step whose answer is looked at: what appears in it for the first time is named after it."""
        self.log_dir = ""
        """The path of the log directory that the broker has."""
        self._ids: dict[str, Uuid] = {}
        self._names: dict[Uuid, str] = {}
        self._producers: dict[int, str] = {}
        self._sessions: dict[int, str] = {}

    def topic_id(self, topic: str) -> Uuid:
        """The id of a topic that an answer has named, the zero id for any other."""
        return self._ids.get(topic, ZERO_UUID)

    def learn(self, struct: WireStruct) -> None:
        """Take over the topic id of every topic below a struct."""
        name, topic_id = getattr(struct, "name", None), getattr(struct, "topic_id", ZERO_UUID)
        if isinstance(name, str) and name and topic_id != ZERO_UUID:
            self._ids[name] = topic_id
            self._names[topic_id] = name
        for field in struct.FIELDS:
            value = getattr(struct, field)
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, WireStruct):
                    self.learn(each)

    def topic_label(self, topic_id: Uuid) -> str:
        return f"id of {self._names[topic_id]}" if topic_id in self._names else topic_id.hex()

    def producer_label(self, producer_id: int) -> int | str:
        """A producer by the step that got its id; ids that scripts invent are above a million."""
        if producer_id < 0 or producer_id > 1_000_000:
            return producer_id
        return self._producers.setdefault(producer_id, f"<producer of {self.step}>")

    def session_label(self, session_id: int) -> int | str:
        if session_id == 0:
            return 0
        return self._sessions.setdefault(session_id, f"<session of {self.step}>")

    def text_label(self, text: str) -> str:
        """A message for people, with the ids in it replaced."""
        for topic_id, name in self._names.items():
            text = text.replace(str(topic_id), f"<id of {name}>")
        return _PRODUCER_IN_TEXT.sub(lambda found: str(self.producer_label(int(found[0]))), text)
