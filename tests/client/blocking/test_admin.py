"""The blocking twin: the same calls, seen by type checkers, and made."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AsyncAdmin
from ottla.client.blocking.admin import Admin
from ottla.errors import UnknownTopicOrPartitionError
from tests.client.requests.support import requester
from tests.client.worlds import World, on_sockets
from tools import make_admin

_T = TypeVar("_T")


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def test_it_is_what_the_generator_makes_of_the_modules() -> None:
    assert make_admin.TARGET.read_text() == make_admin.make(), "run `make stubs`"


def test_it_has_the_same_methods_with_the_same_parameters_and_results() -> None:
    twins, originals = public(Admin), public(AsyncAdmin)
    assert list(twins) == list(originals)
    for name, twin in twins.items():
        assert str(inspect.signature(twin)) == str(inspect.signature(originals[name])), name
        assert not inspect.iscoroutinefunction(twin), name


def test_calls_run_where_the_client_runs() -> None:
    async def body(world: World) -> None:
        async with world.cluster() as cluster:
            me, loop = requester(world, cluster), asyncio.get_running_loop()

            def call(work: Coroutine[Any, Any, _T]) -> _T:
                return asyncio.run_coroutine_threadsafe(work, loop).result()

            admin = Admin(me.admin, call)

            def calls() -> list[str]:
                admin.create_topic("orders", partitions=2)
                with pytest.raises(UnknownTopicOrPartitionError, match="ordres"):
                    admin.delete_topic("ordres")
                return list(admin.list_topics())

            assert await asyncio.to_thread(calls) == ["orders"]

    on_sockets(body)  # a simulation has one thread
