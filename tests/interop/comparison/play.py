"""Plays a script to a broker and writes down what came back.

An outcome is a normalised answer, or one of the other things that happen on a connection: it was closed, or nothing
came. Outcomes are plain values, so that they can be recorded and compared.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from ottla.errors import KafkaError
from ottla.wire import api_for_key, api_named, correlation_id_of, decode_response, encode_request
from ottla.wire.messages import ApiVersionsRequest
from tests.interop.comparison.normal import Plain, normalised
from tests.interop.comparison.script import Raw, Section, Step
from tests.interop.comparison.steps import SECTIONS
from tests.interop.comparison.world import World
from tests.interop.waiting import eventually
from tests.wire.splitter import FrameSplitter

CLOSED = {"outcome": "the connection was closed"}
SILENCE = {"outcome": "no answer"}
_ANSWER_S = 10.0
_SETTLE_S = 60.0
# How long bytes that may be half a request are given: nobody can tell a slow broker from one that waits.
_HALF_REQUEST_S = 4.0
_CLIENT_ID = "comparison"


class Line:
    """One connection: frames out, frames in."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=_ANSWER_S)
        self._splitter = FrameSplitter()
        self._frames: list[bytes] = []

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, within: float = _ANSWER_S) -> bytes:
        """The next frame; TimeoutError and ConnectionError say why there is none."""
        self._socket.settimeout(within)
        while not self._frames:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("closed")
            self._frames += self._splitter.feed(data)
        return self._frames.pop(0)


class Player:
    """One run of a script against the broker at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._address = (host, int(port))
        self._world = World()
        self._correlation_id = 0

    def play(self, sections: Iterable[Section]) -> Iterator[tuple[str, Plain]]:
        """The name of every step with its outcome."""
        for section in sections:
            yield from self._section(section)

    def _section(self, section: Section) -> Iterator[tuple[str, Plain]]:
        line = Line(self._address)
        try:
            for step in section.steps:
                self._world.step = step.name
                outcome = self._raw(step) if isinstance(step, Raw) else self._settled(line, step)
                yield f"{section.name}: {step.name}", outcome
                if outcome in (CLOSED, SILENCE) and isinstance(step, Step) and step.answered:
                    line.__exit__(None, None, None)
                    line = Line(self._address)
        finally:
            line.__exit__(None, None, None)

    def _settled(self, line: Line, step: Step) -> Plain:
        if step.until is None:
            return self._outcome(line, step)[0]
        until = step.until
        last: list[Plain] = []

        def holds() -> bool:
            outcome, answer = self._outcome(line, step)
            last[:] = [outcome]
            return answer is None or until(answer)

        try:
            eventually(holds, step.name, within=_SETTLE_S)
        except TimeoutError:
            return {"outcome": "never came about", "last": last[0]}
        return last[0]

    def _outcome(self, line: Line, step: Step) -> tuple[Plain, Any]:
        request = step.build(self._world)
        self._correlation_id += 1
        try:
            line.send(b"".join(encode_request(request, step.version, self._correlation_id, _CLIENT_ID)))
            if not step.answered:
                return self._unanswered(line), None
            frame = line.receive(step.within)
        except TimeoutError:
            return SILENCE, None
        except ConnectionError:
            return CLOSED, None
        return self._decoded(frame, request.API_KEY, step)

    def _decoded(self, frame: bytes, api_key: int, step: Step) -> tuple[Plain, Any]:
        try:
            answer = decode_response(api_for_key(api_key), step.version, frame)
        except KafkaError as error:
            return {"outcome": f"an answer that cannot be read: {error}"}, None
        if correlation_id_of(frame) != self._correlation_id:
            return {"outcome": "an answer to another request"}, None
        outcome = normalised(answer, self._world)
        if step.remember is not None:
            step.remember(self._world, answer)
        return outcome, answer

    def _unanswered(self, line: Line) -> Plain:
        """Whatever comes first is the answer to a second request, if there is none to the first."""
        self._correlation_id += 1
        line.send(b"".join(encode_request(ApiVersionsRequest(), 0, self._correlation_id, _CLIENT_ID)))
        first = int.from_bytes(line.receive()[:4], signed=True)
        return SILENCE if first == self._correlation_id else {"outcome": "an answer to acks=0"}

    def _raw(self, step: Raw) -> Plain:
        with Line(self._address) as line:
            try:
                line.send(step.data)
                frame = line.receive(_HALF_REQUEST_S if step.reads is None else _ANSWER_S)
            except TimeoutError:
                return SILENCE
            except ConnectionError:
                return CLOSED
        if step.reads is None:
            return {"outcome": "an answer"}
        api, version = step.reads
        try:
            return normalised(decode_response(api_named(api), version, frame), self._world)
        except KafkaError as error:
            return {"outcome": f"an answer that cannot be read: {error}"}


def play(bootstrap: str, sections: Iterable[Section] = SECTIONS) -> dict[str, Plain]:
    """The outcomes of a whole script, by the names of its steps."""
    outcomes: dict[str, Plain] = {}
    for name, outcome in Player(bootstrap).play(sections):
        assert name not in outcomes, f"two steps are called {name!r}"
        outcomes[name] = outcome
    return outcomes
