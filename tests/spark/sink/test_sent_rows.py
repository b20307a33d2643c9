"""What tasks report to the driver, and how it is summed up."""

from __future__ import annotations

import pickle

from ottla.spark.sink.sent_rows import Sent, SentRows, named, summary


def test_messages_of_all_tasks_are_summed_up() -> None:
    messages = [SentRows({"a": Sent(2, 20), "b": Sent(1, 10)}), None, SentRows({"a": Sent(3, 30)})]
    assert summary(messages) == "6 rows (60 bytes) to a, b"
    assert summary([SentRows({})]) == "0 rows (0 bytes) to no topic"


def test_thousands_of_topics_are_not_all_named() -> None:
    assert named([f"t{number}" for number in range(9)]) == "t0, t1, t2, t3, t4 and 4 more topics"


def test_messages_travel() -> None:
    message = SentRows({"a": Sent(2, 20)})
    assert pickle.loads(pickle.dumps(message)) == message
