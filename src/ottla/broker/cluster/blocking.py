"""`Cluster`: the cluster for code that blocks, on a loop and a thread of its own.

    with Cluster(brokers=3, topics={"orders": 6}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

The only module of the broker with a thread. Everything here is handed over to the loop, where the cluster lives.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.broker.cluster.cluster import HOST, AsyncCluster
from ottla.broker.cluster.options import TopicSpec
from ottla.broker.cluster.seeding import Seed
from ottla.broker.cluster.volumes import DataDir
from ottla.broker.server.faults import Action, Fault, drop
from ottla.broker.server.telemetry import ClusterTelemetry
from ottla.runtime import new_loop
from ottla.wire.records import Record

_T = TypeVar("_T")


class Cluster:
    """A Kafka cluster in this process; `AsyncCluster` says what the arguments and methods mean."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int | TopicSpec] | Sequence[str] = (),
        config: Mapping[str, object] | None = None,
        racks: Sequence[str | None] = (),
        ports: Sequence[int] = (),
        host: str = HOST,
        max_versions: Mapping[str, int] | str | None = None,
        data_dir: DataDir | None = None,
    ) -> None:
        self._cluster = AsyncCluster(
            brokers,
            topics=topics,
            config=config,
            racks=racks,
            ports=ports,
            host=host,
            max_versions=max_versions,
            data_dir=data_dir,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Taken to hand work over, so that none comes behind the loop's end and waits forever.
        self._handing_over = threading.Lock()
        self._runs = False
        self._closing = threading.Lock()
        self.faults = BlockingFaults(self)
        self.clock = BlockingClock(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Returns when every node serves and every topic has its leaders."""
        if self._thread is not None:
            raise RuntimeError("the cluster has been started already; for another one make a new Cluster")
        self._loop = new_loop()
        self._thread = threading.Thread(target=_live, args=(self._loop,), name="ottla-cluster", daemon=True)
        self._thread.start()
        self._runs = True
        atexit.register(self._end_at_exit)
        try:
            self.run(self._cluster.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stops everything; a second call does nothing."""
        with self._closing:
            try:
                # A fork has the cluster's memory without its thread: there is nothing to stop.
                if self._runs and self._thread is not None and self._thread.is_alive():
                    self.run(self._cluster.close())
            finally:
                self._end_thread()
                atexit.unregister(self._end_at_exit)

    def _end_at_exit(self) -> None:
        """For a cluster that was left open: in a thread that outlives the interpreter, uvloop may crash."""
        if self._thread is not None and self._thread.is_alive():
            self.close()

    def _end_thread(self) -> None:
        with self._handing_over:
            if self._runs:
                self._runs = False
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join()

    def run(self, work: Coroutine[Any, Any, _T], timeout: float | None = None) -> _T:
        """Runs a coroutine on the cluster's loop; its result."""
        try:
            future = self._hand_over(work)
        except RuntimeError:
            work.close()
            raise
        try:
            return future.result(timeout)
        except CancelledError:
            raise RuntimeError("the cluster has been closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def _hand_over(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        if threading.current_thread() is self._thread:
            raise RuntimeError("the cluster's own thread would wait for itself")
        with self._handing_over:
            if not self._runs or self._loop is None:
                raise RuntimeError(f"the cluster does not run: {_why(self._thread)}")
            if self._thread is not None and not self._thread.is_alive():
                raise RuntimeError("the cluster runs in the process that this one was forked from")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., _T], *args: Any, **options: Any) -> _T:
        """Calls a plain function on the cluster's loop."""
        if threading.current_thread() is self._thread:
            return function(*args, **options)

        async def called() -> _T:
            return function(*args, **options)

        return self.run(called())

    @property
    def bootstrap(self) -> str:
        """The addresses of the nodes that run, for `bootstrap.servers`."""
        return self._cluster.bootstrap

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def nodes(self) -> list[int]:
        """The ids of the nodes that run."""
        return list(self._cluster.nodes)

    @property
    def failures(self) -> dict[int, str]:
        """Why nodes have stopped by themselves, by id, until they are started again."""
        return self._cluster.failures

    @property
    def telemetry(self) -> ClusterTelemetry:
        return self._cluster.telemetry

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self.run(self._cluster.create_topic(name, partitions, replicas=replicas, config=config))

    def delete_topic(self, name: str) -> None:
        self.run(self._cluster.delete_topic(name))

    def leader(self, topic: str, partition: int = 0) -> int:
        return self.call(self._cluster.leader, topic, partition)

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        """The nodes whose replicas are in sync."""
        return self.call(self._cluster.in_sync, topic, partition)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self.run(self._cluster.move_leader(topic, partition, node_id))

    def stop_node(self, node_id: int, *, clean: bool = True) -> None:
        self.run(self._cluster.stop_node(node_id, clean=clean))

    def fence_node(self, node_id: int) -> None:
        self.run(self._cluster.fence_node(node_id))

    def start_node(self, node_id: int) -> None:
        self.run(self._cluster.start_node(node_id))

    def pause_node(self, node_id: int) -> None:
        self.call(self._cluster.pause_node, node_id)

    def resume_node(self, node_id: int) -> None:
        self.call(self._cluster.resume_node, node_id)

    def add_node(self, *, rack: str | None = None, port: int = 0) -> int:
        return self.run(self._cluster.add_node(rack=rack, port=port))

    def remove_node(self, node_id: int) -> None:
        self.run(self._cluster.remove_node(node_id))

    def stop_controller(self, *, clean: bool = True) -> None:
        self.run(self._cluster.stop_controller(clean=clean))

    def start_controller(self) -> None:
        self.run(self._cluster.start_controller())

    def cut_controller(self, node_id: int) -> None:
        self.call(self._cluster.cut_controller, node_id)

    def heal_controller(self, node_id: int) -> None:
        self.call(self._cluster.heal_controller, node_id)

    def cut_link(self, first: int, second: int, *, one_way: bool = False) -> None:
        """Cuts the link between two nodes, or only what the first sends, until `heal_link`."""
        self.call(lambda: self._cluster.cut_link(first, second, one_way=one_way))

    def heal_link(self, first: int, second: int) -> None:
        self.call(self._cluster.heal_link, first, second)

    def under_replicated(
        self, topic: str | None = None, partition: int | None = None
    ) -> dict[tuple[str, int], list[int]]:
        """The partitions with replicas that are not in sync, and on which nodes those are."""
        return self.call(self._cluster.under_replicated, topic, partition)

    def offline(self) -> list[tuple[str, int]]:
        """The partitions without a leader."""
        return self.call(self._cluster.offline)

    def wait_until_in_sync(
        self, topic: str | None = None, partition: int | None = None, within: float = 30.0
    ) -> None:
        """Until every replica of a partition, of a topic or of all topics is in sync."""
        self.run(self._cluster.wait_until_in_sync(topic, partition, within))

    def seed(self, topic: str, records: Iterable[Seed], partition: int = 0) -> int:
        """Appends records; every node that is connected knows a topic that is new when it returns."""

        async def seeded() -> int:
            known = self._cluster.controller.log_end_offset
            first = self._cluster.seed(topic, records, partition)
            end = self._cluster.controller.log_end_offset
            if end > known:
                await self._cluster.controller.known_to_nodes(end)
            return first

        return self.run(seeded())

    def dump(self, topic: str, partition: int | None = None) -> list[Record]:
        return self.call(self._cluster.dump, topic, partition)

    def wait_for(
        self, condition: Callable[[], bool], what: str = "the condition", within: float = 30.0
    ) -> None:
        """The condition is called on the cluster's loop, so it may look at anything but must not block."""
        self.run(self._cluster.wait_for(condition, what, within))

    def wait_for_records(self, topic: str, count: int, within: float = 30.0) -> list[Record]:
        """The records of a topic, once there are at least that many. It may be created meanwhile."""
        return self.run(self._cluster.wait_for_records(topic, count, within))


class BlockingFault:
    """A fault rule, seen from another thread."""

    def __init__(self, cluster: Cluster, fault: Fault) -> None:
        self._cluster = cluster
        self.fault = fault

    def __repr__(self) -> str:
        return f"<{self.fault}>"

    @property
    def hits(self) -> int:
        return self.fault.hits

    def wait(self, hits: int = 1, timeout: float = 30.0) -> None:
        """Returns when the rule has struck that often; TimeoutError if it does not."""
        try:
            self._cluster.run(self.fault.wait(hits), timeout)
        except TimeoutError:
            raise TimeoutError(
                f"{self.fault} has struck {self.hits} times within {timeout:g} seconds, not {hits}"
            ) from None

    def remove(self) -> None:
        self._cluster.faults.remove(self)


class BlockingFaults:
    """The fault rules of a cluster, from another thread; arguments as in `Faults.add`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def _faults(self) -> Any:
        return self._cluster._cluster.faults

    def add(
        self,
        api: str | None = None,
        *,
        node: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        when: str = "before_append",
        action: Action = drop,
        count: int | None = None,
    ) -> BlockingFault:
        fault = self._cluster.call(
            self._faults.add,
            api,
            node=node,
            topic=topic,
            partition=partition,
            client_id=client_id,
            when=when,
            action=action,
            count=count,
        )
        return BlockingFault(self._cluster, fault)

    def remove(self, fault: BlockingFault) -> None:
        self._cluster.call(self._faults.remove, fault.fault)

    def clear(self) -> None:
        self._cluster.call(self._faults.clear)


class BlockingClock:
    """The cluster's clock, from another thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def time(self) -> float:
        return self._cluster.call(self._cluster._cluster.clock.time)

    def advance(self, seconds: float) -> None:
        self._cluster.call(self._cluster._cluster.clock.advance, seconds)


def _why(thread: threading.Thread | None) -> str:
    if thread is None:
        return "it has not been started (use it in a with statement, or call start())"
    return "it has been closed"


def _live(loop: asyncio.AbstractEventLoop) -> None:
    """The life of the thread: until the loop is stopped, and then until nothing is left on it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_end_tasks())
    finally:
        loop.close()


async def _end_tasks() -> None:
    current = asyncio.current_task()
    tasks = [task for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name) if task is not current]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
