"""Members of a classic group that are nothing but connections: what a coordinator does for five hundred of them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ottla.wire import Message, api_for_key, decode_response, encode_request
from ottla.wire.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)

_JOIN, _SYNC, _HEARTBEAT, _FIND = 9, 5, 4, 4
_MEMBER_ID_REQUIRED, _REBALANCE_IN_PROGRESS, _UNKNOWN_MEMBER_ID, _ILLEGAL_GENERATION = 79, 27, 25, 22
_HEARTBEAT_INTERVAL = 0.1
_DEADLINE = 60.0
_PROTOCOL = "plain"


def join_to_stable(bootstrap: str, group: str, members: int) -> float:
    """Seconds from the first JoinGroup until all members have their assignments in the same generation."""
    return asyncio.run(_Group(bootstrap, group, members).run())


class _Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, bootstrap: str) -> _Connection:
        host, _, port = bootstrap.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, request: Message, version: int) -> Any:
        self._writer.writelines(encode_request(request, version, 1, "bench"))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        return decode_response(api_for_key(request.API_KEY), version, frame)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class _Group:
    def __init__(self, bootstrap: str, group: str, members: int) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._count = members
        self._generations: dict[int, int] = {}
        self._is_stable = asyncio.Event()

    async def run(self) -> float:
        await self._find_coordinator()
        connections = [await _Connection.open(self._bootstrap) for _ in range(self._count)]
        started = time.perf_counter()
        tasks = [asyncio.ensure_future(self._member(*each)) for each in enumerate(connections)]
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._is_stable.wait()
            return time.perf_counter() - started
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for connection in connections:
                await connection.close()

    async def _find_coordinator(self) -> None:
        """Until the topic of the groups has its leaders, and they have loaded it."""
        connection = await _Connection.open(self._bootstrap)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
        heartbeat = HeartbeatRequest(group_id=self._group, generation_id=0, member_id="nobody")
        async with asyncio.timeout(_DEADLINE):
            while True:
                found = await connection.ask(find, _FIND)
                if not found.coordinators[0].error_code:
                    response = await connection.ask(heartbeat, _HEARTBEAT)
                    if response.error_code == _UNKNOWN_MEMBER_ID:
                        break
                await asyncio.sleep(0.01)
        await connection.close()

    async def _member(self, number: int, connection: _Connection) -> None:
        member_id = ""
        while True:
            joined = await connection.ask(self._join(member_id), _JOIN)
            if joined.error_code == _MEMBER_ID_REQUIRED:
                member_id = joined.member_id
                continue
            if joined.error_code == _REBALANCE_IN_PROGRESS:
                continue
            if joined.error_code:
                raise RuntimeError(f"JoinGroup: {joined.error_code}")
            synced = await connection.ask(self._sync(joined, member_id), _SYNC)
            if not synced.error_code:
                self._assigned(number, joined.generation_id)
                await self._until_rebalance(connection, member_id, joined.generation_id)
            elif synced.error_code not in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
                raise RuntimeError(f"SyncGroup: {synced.error_code}")

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=b"\x00" * 32)],
        )

    def _sync(self, joined: Any, member_id: str) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member.member_id, assignment=b"\x00" * 64
                )
                for member in joined.members
            ],
        )

    def _assigned(self, number: int, generation: int) -> None:
        self._generations[number] = generation
        if len(self._generations) == self._count and len(set(self._generations.values())) == 1:
            self._is_stable.set()

    async def _until_rebalance(self, connection: _Connection, member_id: str, generation: int) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=member_id)
        while True:
            response = await connection.ask(request, _HEARTBEAT)
            if response.error_code:
                return
            await asyncio.sleep(_HEARTBEAT_INTERVAL)
