"""Levels of loggers are set, unset and inherited from the root; what is refused is in test_recorded.py."""

from __future__ import annotations

from ottla.broker.configs import BrokerLoggers
from ottla.wire.messages import IncrementalAlterConfigsRequest
from ottla.wire.resources import ConfigOperation


def change(
    name: str, operation: ConfigOperation, level: str | None
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=8,
        resource_name="1",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=operation, value=level)
        ],
    )


def test_a_logger_without_a_level_has_the_roots() -> None:
    loggers = BrokerLoggers(["a", "b"])
    for resource in (change("root", ConfigOperation.SET, "WARN"), change("a", ConfigOperation.SET, "TRACE")):
        loggers.check(resource, 1)
        loggers.apply(resource)
    assert loggers.levels() == {"a": "TRACE", "b": "WARN", "root": "WARN"}


def test_a_logger_whose_level_is_deleted_has_the_roots_again() -> None:
    loggers = BrokerLoggers(["a"])
    loggers.apply(change("a", ConfigOperation.SET, "TRACE"))
    deletion = change("a", ConfigOperation.DELETE, None)
    loggers.check(deletion, 1)
    loggers.apply(deletion)
    assert loggers.levels() == {"a": "INFO", "root": "INFO"}


def test_checking_changes_nothing() -> None:
    loggers = BrokerLoggers(["a"])
    loggers.check(change("a", ConfigOperation.SET, "TRACE"), 1)
    assert loggers.levels() == {"a": "INFO", "root": "INFO"}
