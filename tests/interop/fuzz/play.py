"""Plays a script to a broker, many requests at a time.

A broker answers the requests of a connection in their order, so that the player sends what does not depend on
answers without waiting for any. After a step that changes metadata it waits until the broker has applied it: two
changes of a topic of the player's own, one after the other, are visible only when everything before them is done.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ottla.errors import KafkaError
from ottla.wire import Message, api_for_key, correlation_id_of, decode_response, encode_request
from ottla.wire.messages import (
    ApiVersionsRequest,
    DescribeConfigsRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
)
from tests.interop.comparison.normal import Plain, normalised
from tests.interop.comparison.play import CLOSED, SILENCE, Line, play
from tests.interop.comparison.requests import given
from tests.interop.comparison.script import section
from tests.interop.comparison.world import World
from tests.interop.fuzz.drawing import PREFIX, FuzzStep, fitted
from tests.interop.waiting import eventually

_ANSWER_S: Final = 10.0
_SETTLE_S: Final = 6.0
_AHEAD: Final = 24
"""Requests that are sent without an answer: few enough for the buffers of a socket."""
_CLIENT_ID: Final = "fuzz"
_TOPIC: Final = 2


class Player:
    """One broker, and a connection to it. `own_topic` is what the player changes to see how far the broker is."""

    def __init__(self, bootstrap: str, own_topic: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._address = (host, int(port))
        self._own_topic = own_topic
        play(bootstrap, [section("fuzz", given(own_topic))])
        self._line = Line(self._address)
        self._correlation_ids = itertools.count(1)
        self._changes = itertools.count(1_000_000)
        eventually(self._has_producer_ids, "the broker to have producer ids")
        eventually(self._has_coordinators, "the broker to have coordinators")

    def close(self) -> None:
        self._line.__exit__(None, None, None)

    def play(self, steps: Sequence[FuzzStep], prefix: str) -> list[Plain]:
        """What became of each step; `prefix` makes the script's topics its own."""
        if len(prefix) != len(PREFIX):
            raise ValueError(f"{prefix!r} is not as long as {PREFIX!r}, whose place it takes")
        world = World()
        outcomes: list[Plain] = []
        while len(outcomes) < len(steps):
            outcomes += self._together(_window(steps, len(outcomes)), world, prefix, len(outcomes))
        return outcomes

    def _together(self, window: Sequence[FuzzStep], world: World, prefix: str, first: int) -> list[Plain]:
        """The outcomes of steps that are sent at once; fewer, if the connection ends between them."""
        requests = [fitted(step.build(world), step.version) for step in window]
        sent = [self._send(step, request, prefix) for step, request in zip(window, requests, strict=True)]
        outcomes: list[Plain] = []
        for number, (step, request) in enumerate(zip(window, requests, strict=True)):
            world.step = str(first + number)
            try:
                outcomes.append(self._outcome(step, request, sent[number], world, prefix))
            except TimeoutError:
                outcomes.append(SILENCE)
            except ConnectionError:
                outcomes.append(CLOSED)
            if outcomes[-1] == CLOSED or (outcomes[-1] == SILENCE and step.answered):
                self.close()
                self._line = Line(self._address)
                break
        if window[-1].settles:
            self._settle()
        return outcomes

    def _send(self, step: FuzzStep, request: Message, prefix: str) -> int:
        correlation_id = next(self._correlation_ids)
        frame = b"".join(encode_request(request, step.version, correlation_id, _CLIENT_ID))
        try:
            self._line.send(frame.replace(PREFIX.encode(), prefix.encode()))
            if not step.answered:
                correlation_id = next(self._correlation_ids)
                self._line.send(b"".join(encode_request(ApiVersionsRequest(), 0, correlation_id, _CLIENT_ID)))
        except ConnectionError:
            pass  # noticed when the answer is read
        return correlation_id

    def _outcome(self, step: FuzzStep, request: Message, sent: int, world: World, prefix: str) -> Plain:
        if step.until is not None:
            return self._until(step, request, sent, world, prefix)
        return self._answer(step, request, sent, world, prefix)[0]

    def _answer(
        self, step: FuzzStep, request: Message, sent: int, world: World, prefix: str
    ) -> tuple[Plain, Any]:
        frame = self._line.receive(_ANSWER_S)
        if not step.answered:
            first = int.from_bytes(frame[:4], signed=True)
            return (SILENCE if first == sent else {"outcome": "an answer to acks=0"}), None
        frame = frame.replace(prefix.encode(), PREFIX.encode())
        try:
            answer = decode_response(api_for_key(request.API_KEY), step.version, frame)
        except KafkaError as error:
            return {"outcome": f"an answer that cannot be read: {error}"}, None
        if correlation_id_of(frame) != sent:
            return {"outcome": "an answer to another request"}, None
        outcome = normalised(answer, world)
        if step.remember is not None:
            step.remember(world, answer)
        return outcome, answer

    def _until(self, step: FuzzStep, request: Message, sent: int, world: World, prefix: str) -> Plain:
        until = step.until
        assert until is not None
        last: list[Plain] = []
        pending = [sent]

        def holds() -> bool:
            number = pending.pop() if pending else self._send(step, request, prefix)
            outcome, answer = self._answer(step, request, number, world, prefix)
            last[:] = [outcome]
            return answer is None or until(answer)

        try:
            eventually(holds, step.name, within=_SETTLE_S)
        except TimeoutError:
            return {"outcome": "never came about", "last": last[0]}
        return last[0]

    def _settle(self) -> None:
        for _ in range(2):
            value = str(next(self._changes))
            config = IncrementalAlterConfigsRequest.AlterableConfig(
                name="retention.ms", config_operation=0, value=value
            )
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=_TOPIC, resource_name=self._own_topic, configs=[config]
            )
            self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            eventually(partial(self._has_applied, value), "a change to be applied", every=0.001)

    def _has_applied(self, value: str) -> bool:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=self._own_topic, configuration_keys=["retention.ms"]
        )
        answer = self._ask(DescribeConfigsRequest(resources=[resource]), 4)
        configs = answer.results[0].configs
        return bool(configs and configs[0].value == value)

    def _has_producer_ids(self) -> bool:
        return bool(self._ask(InitProducerIdRequest(transactional_id=None), 4).error_code == 0)

    def _has_coordinators(self) -> bool:
        answers = [
            self._ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["fuzz"]), 4) for kind in (0, 1)
        ]
        return all(answer.coordinators[0].error_code == 0 for answer in answers)

    def _ask(self, request: Message, version: int) -> Any:
        correlation_id = next(self._correlation_ids)
        self._line.send(b"".join(encode_request(request, version, correlation_id, _CLIENT_ID)))
        return decode_response(api_for_key(request.API_KEY), version, self._line.receive(_ANSWER_S))


def _window(steps: Sequence[FuzzStep], first: int) -> Sequence[FuzzStep]:
    """The steps from `first` on that can be sent before any of them is answered."""
    last = first
    while last + 1 < len(steps) and last + 1 - first < _AHEAD:
        here, following = steps[last], steps[last + 1]
        if here.settles or here.until is not None or not here.answered or following.waits:
            break
        last += 1
    return steps[first : last + 1]
