"""A network in memory: addresses, refusals, and connections that are given up halfway."""

from __future__ import annotations

import asyncio

import pytest

from ottla.net.memory import Arrive, ImmediatePath, PacketKind, Path
from ottla.net.memory_network import Endpoint, MemoryNetwork
from tests.net.peers import RawPeer


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Stuck:
    """Lets through what comes before a kind, and holds that and the rest."""

    def __init__(self, kind: PacketKind) -> None:
        self._kind = kind
        self.held: list[tuple[bytes, Arrive]] = []

    def carry(self, kind: PacketKind, data: bytes, arrive: Arrive) -> None:
        if self.held or kind == self._kind:
            self.held.append((data, arrive))
        else:
            ImmediatePath().carry(kind, data, arrive)

    def release(self) -> None:
        for data, arrive in self.held:
            ImmediatePath().carry("data", data, arrive)


def test_a_free_port_is_chosen_and_an_address_is_used_once() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        first = await network.listen("m", "a", 0, RawPeer)
        second = await network.listen("m", "a", 0, RawPeer)
        other = await network.listen("m", "b", first.port, RawPeer)
        assert (first.host, first.port, second.port) == ("a", 32768, 32769)
        with pytest.raises(OSError, match="a:32768 is in use"):
            await network.listen("m", "a", first.port, RawPeer)
        await first.close()
        await first.close()
        again = await network.listen("m", "a", first.port, RawPeer)
        await first.close()
        with pytest.raises(OSError, match="is in use"):
            await network.listen("m", "a", again.port, RawPeer)
        assert other.port == first.port

    asyncio.run(main())


def test_both_ends_are_connected_with_the_address_of_the_other() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        accepted: list[RawPeer] = []

        def accept() -> RawPeer:
            accepted.append(RawPeer())
            return accepted[-1]

        listener = await network.listen("node-1", "127.0.0.1", 9092, accept)
        client = await network.connect("client", "127.0.0.1", 9092, RawPeer)
        assert isinstance(client, RawPeer)
        assert client.transport.get_extra_info("peername") == ("127.0.0.1", 9092)
        assert accepted[0].transport.get_extra_info("peername") == ("client", 49152)
        (established,) = network.established.values()
        assert str(established.server) == "node-1/127.0.0.1:9092"
        client.transport.write(b"hello")
        await accepted[0].until(lambda: accepted[0].data == b"hello")
        client.transport.close()
        await client.until_lost()
        await accepted[0].until_lost()
        await settle()
        assert network.established == {}
        await listener.close()

    asyncio.run(main())


def test_where_nobody_listens_the_connection_is_refused() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        with pytest.raises(ConnectionRefusedError, match="there is no listener on nowhere/nowhere:9092"):
            await network.connect("client", "nowhere", 9092, RawPeer)

    asyncio.run(main())


def test_a_closed_listener_is_still_known_by_its_machine() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        listener = await network.listen("node-1", "127.0.0.1", 9092, RawPeer)
        await listener.close()
        assert network.endpoint("127.0.0.1", 9092) == Endpoint("node-1", "127.0.0.1", 9092)
        assert network.endpoint("elsewhere", 1) == Endpoint("elsewhere", "elsewhere", 1)

    asyncio.run(main())


def test_a_connection_that_is_given_up_on_its_way_is_reset_at_the_server() -> None:
    async def main() -> None:
        stuck = Stuck("accept")
        paths: list[Path] = [ImmediatePath(), stuck]
        network = MemoryNetwork(lambda *_: paths.pop(0))
        server = RawPeer()
        await network.listen("node-1", "a", 1, lambda: server)
        connecting = asyncio.ensure_future(network.connect("client", "a", 1, RawPeer))
        await settle()
        assert len(stuck.held) == 1
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        stuck.release()
        await server.until_lost()
        await settle()
        assert network.established == {}

    asyncio.run(main())


def test_a_connection_that_breaks_on_its_way_is_an_error_for_the_client() -> None:
    async def main() -> None:
        stuck = Stuck("accept")
        paths: list[Path] = [ImmediatePath(), stuck]
        network = MemoryNetwork(lambda *_: paths.pop(0))
        await network.listen("node-1", "a", 1, RawPeer)
        connecting = asyncio.ensure_future(network.connect("client", "a", 1, RawPeer))
        await settle()
        for transport in network.established[0].transports:
            transport.break_off()
        stuck.release()
        with pytest.raises(ConnectionResetError):
            await connecting

    asyncio.run(main())
