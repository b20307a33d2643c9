"""Admin: AsyncAdmin for callers that wait, as `Client.admin` has it. Every call returns when it is done.

Made by tools/make_admin.py from the modules of client/admin: do not edit, run `make stubs`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.offsets import OffsetSpecLike, Partitions
from ottla.client.admin.results import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    Errors,
    Features,
    FencedProducer,
    GroupDescription,
    GroupOffset,
    GroupReset,
    HangingTransaction,
    ListedGroup,
    ListedOffset,
    ListedTransaction,
    LogDir,
    NewTopic,
    PartitionLag,
    ProducerState,
    Reassignment,
    Results,
    TopicDescription,
    TransactionDescription,
    VersionRange,
)
from ottla.client.topic_partition import TopicPartition

_T = TypeVar("_T")


class BlockingCall(Protocol):
    """Runs what is to be awaited on the client's loop, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, _T], /) -> _T: ...


class Admin:
    """Administers a cluster.

        with ottla.Client("localhost:9092") as kafka:
            kafka.admin.create_topic("orders", partitions=6)
            print(kafka.admin.list_offsets("orders", at="earliest"))

    Every call takes `timeout`, in seconds with all its retries; default_api_timeout_ms without.
    """

    def __init__(self, admin: AsyncAdmin, call: BlockingCall) -> None:
        self._admin = admin
        self._call = call

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, object] | None = None,
        assignments: Mapping[int, Iterable[int]] | None = None,
        validate_only: bool = False,
        wait: bool = True,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Creates a topic; -1 leaves a number to the brokers' configs.

            kafka.admin.create_topic("orders", partitions=6, configs={"retention.ms": 60_000})

        Brokers hear of a new topic one after the other; with `wait` this returns when metadata shows it with its
        leaders. With `validate_only` nothing is created. `assignments` names the brokers of each partition.
        """
        work = self._admin.create_topic(
            name,
            partitions,
            replication_factor,
            configs=configs,
            assignments=assignments,
            validate_only=validate_only,
            wait=wait,
            timeout=timeout,
        )
        return self._call(work)

    def create_topics(
        self,
        topics: Iterable[str | NewTopic],
        *,
        validate_only: bool = False,
        wait: bool = True,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Creates topics, in one request; what came of each, by name.

        kafka.admin.create_topics(["audit", NewTopic("orders", 6)])
        """
        work = self._admin.create_topics(
            topics, validate_only=validate_only, wait=wait, errors=errors, timeout=timeout
        )
        return self._call(work)

    def delete_topic(self, name: str, *, wait: bool = True, timeout: float | None = None) -> None:
        """Deletes a topic; with `wait`, returns when metadata no longer shows it."""
        work = self._admin.delete_topic(name, wait=wait, timeout=timeout)
        self._call(work)

    def delete_topics(
        self,
        names: Iterable[str],
        *,
        wait: bool = True,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, None]:
        """Deletes topics, in one request; what came of each, by name."""
        work = self._admin.delete_topics(names, wait=wait, errors=errors, timeout=timeout)
        return self._call(work)

    def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """All topics by name, with their partitions; internal ones only on demand."""
        work = self._admin.list_topics(internal=internal, timeout=timeout)
        return self._call(work)

    def describe_topic(self, name: str, *, timeout: float | None = None) -> TopicDescription:
        """A topic and its partitions."""
        work = self._admin.describe_topic(name, timeout=timeout)
        return self._call(work)

    def describe_topics(
        self, names: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, TopicDescription]:
        """Topics and their partitions, by name."""
        work = self._admin.describe_topics(names, errors=errors, timeout=timeout)
        return self._call(work)

    def create_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignments: Sequence[Iterable[int]] | None = None,
        validate_only: bool = False,
        wait: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Adds partitions to a topic until it has `total`; keys that are hashed may move to others then.

        `assignments` names the brokers of each new partition, the preferred leader first.
        """
        work = self._admin.create_partitions(
            topic, total, assignments=assignments, validate_only=validate_only, wait=wait, timeout=timeout
        )
        self._call(work)

    def describe_configs(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        broker_defaults: bool = False,
        broker_logger: int | None = None,
        group: str | None = None,
        client_metrics: str | None = None,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[str, ConfigEntry]:
        """The configs of one resource by name, or those in `names`.

            configs = kafka.admin.describe_configs(topic="orders")
            configs["retention.ms"].value

        `broker_defaults` are the configs that were set for all brokers; `broker_logger` has levels of logging.
        """
        work = self._admin.describe_configs(
            topic=topic,
            broker=broker,
            broker_defaults=broker_defaults,
            broker_logger=broker_logger,
            group=group,
            client_metrics=client_metrics,
            names=names,
            synonyms=synonyms,
            documentation=documentation,
            timeout=timeout,
        )
        return self._call(work)

    def alter_configs(
        self,
        *,
        topic: str | None = None,
        broker: int | None = None,
        broker_defaults: bool = False,
        broker_logger: int | None = None,
        group: str | None = None,
        client_metrics: str | None = None,
        set: Mapping[str, object] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Changes some configs of one resource and leaves the others alone.

            kafka.admin.alter_configs(topic="orders", set={"retention.ms": 60_000}, delete=["segment.ms"])
            kafka.admin.alter_configs(topic="orders", append={"cleanup.policy": "compact"})

        `delete` goes back to the default; `append` and `subtract` change lists.
        """
        work = self._admin.alter_configs(
            topic=topic,
            broker=broker,
            broker_defaults=broker_defaults,
            broker_logger=broker_logger,
            group=group,
            client_metrics=client_metrics,
            set=set,
            delete=delete,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
            timeout=timeout,
        )
        self._call(work)

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, ListedGroup]:
        """All groups by id, or those in some states, or of some types.

            kafka.admin.list_groups(states=["Stable"], types=["classic", "consumer"])

        Every broker knows the groups that it coordinates. With errors="collect", a broker that could not be asked is
        in `errors`, as "broker 1".
        """
        work = self._admin.list_groups(states=states, types=types, errors=errors, timeout=timeout)
        return self._call(work)

    def describe_group(self, group: str, *, timeout: float | None = None) -> GroupDescription:
        """A group and its members, of either type; GroupIdNotFoundError where there is none."""
        work = self._admin.describe_group(group, timeout=timeout)
        return self._call(work)

    def describe_groups(
        self, groups: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, GroupDescription]:
        """Groups and their members, by group id."""
        work = self._admin.describe_groups(groups, errors=errors, timeout=timeout)
        return self._call(work)

    def delete_group(self, group: str, *, timeout: float | None = None) -> None:
        """Deletes a group with all its offsets; it must have no members."""
        work = self._admin.delete_group(group, timeout=timeout)
        self._call(work)

    def delete_groups(
        self, groups: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, None]:
        """Deletes groups that have no members, with all their offsets; what came of each, by group id."""
        work = self._admin.delete_groups(groups, errors=errors, timeout=timeout)
        return self._call(work)

    def group_offsets(
        self,
        group: str,
        partitions: Partitions | None = None,
        *,
        require_stable: bool = False,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, GroupOffset | None]:
        """What a group has committed: for all partitions that it has, or for these, None where it has nothing.

            committed = kafka.admin.group_offsets("billing")
            committed[ottla.TopicPartition("orders", 0)].offset

        With `require_stable` it waits for transactions that are about to commit other offsets. A group that does not
        exist has committed nothing.
        """
        work = self._admin.group_offsets(
            group, partitions, require_stable=require_stable, errors=errors, timeout=timeout
        )
        return self._call(work)

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | GroupOffset],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Commits offsets for a group, which must have no members; a group that does not exist comes to be.

        kafka.admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 42})
        """
        work = self._admin.alter_group_offsets(group, offsets, errors=errors, timeout=timeout)
        return self._call(work)

    def delete_group_offsets(
        self, group: str, partitions: Partitions, *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[TopicPartition, None]:
        """Forgets what a group has committed for these partitions, of topics that no member is subscribed to."""
        work = self._admin.delete_group_offsets(group, partitions, errors=errors, timeout=timeout)
        return self._call(work)

    def reset_group_offsets(
        self,
        group: str,
        partitions: Partitions | None = None,
        *,
        to: OffsetSpecLike | int | None = None,
        shift: int | None = None,
        dry_run: bool = False,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, GroupReset]:
        """Moves a group that has no members to another place: in these partitions, or in all that it has offsets of.

            kafka.admin.reset_group_offsets("billing", to="earliest")
            kafka.admin.reset_group_offsets("billing", "orders", to=datetime(2026, 1, 1, tzinfo=UTC))
            kafka.admin.reset_group_offsets("billing", "orders", shift=-100, dry_run=True)

        `to` is "earliest", "latest", an offset, or a time as `list_offsets` takes it, also "by_duration:PT1H": the
        first record that is not older, or the end. `shift` counts from what is committed. Offsets outside of a
        partition become its beginning or its end. With `dry_run` nothing is changed.
        """
        work = self._admin.reset_group_offsets(
            group, partitions, to=to, shift=shift, dry_run=dry_run, errors=errors, timeout=timeout
        )
        return self._call(work)

    def group_lag(
        self, group: str, *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[TopicPartition, PartitionLag]:
        """How far a group is behind, in each partition that it has committed or that a member has.

        lag = kafka.admin.group_lag("billing")
        print(sum(each.lag or 0 for each in lag.values()))
        """
        work = self._admin.group_lag(group, errors=errors, timeout=timeout)
        return self._call(work)

    def list_offsets(
        self,
        partitions: Partitions | Mapping[TopicPartition, OffsetSpecLike],
        at: OffsetSpecLike | Mapping[TopicPartition, OffsetSpecLike] = "latest",
        *,
        isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """The offset of an offset spec, in each of these partitions: topics, or TopicPartitions.

            ends = kafka.admin.list_offsets("orders")
            since = kafka.admin.list_offsets(["orders", "audit"], at=datetime(2026, 1, 1, tzinfo=UTC))

        `at` is "earliest", "latest", "max_timestamp" (the record with the latest time), or a time as `consume` takes
        it, a datetime, a `Timestamp` or "by_duration:PT1H": the first record that is not older. A mapping has one for
        each partition, also in place of the partitions, as `consume` takes it; those that it lacks give their end.
        With read_committed, "latest" ends before open transactions.
        """
        work = self._admin.list_offsets(partitions, at, isolation=isolation, errors=errors, timeout=timeout)
        return self._call(work)

    def delete_records(
        self,
        before: Mapping[TopicPartition, int | None],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, int]:
        """Deletes the records before an offset, of each partition; None deletes all there are.

            kafka.admin.delete_records({TopicPartition("orders", 0): 1_000})

        Returns the offset of the first record that is left, by partition.
        """
        work = self._admin.delete_records(before, errors=errors, timeout=timeout)
        return self._call(work)

    def describe_producers(
        self,
        partitions: Partitions,
        *,
        broker: int | None = None,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """The idempotent and transactional producers that each partition's leader remembers (KIP-664).

        With `broker`, those that the replicas on this one remember.
        """
        work = self._admin.describe_producers(partitions, broker=broker, errors=errors, timeout=timeout)
        return self._call(work)

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        older_than: float | None = None,
        pattern: str | None = None,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[str, ListedTransaction]:
        """All transactional ids, or those in some states, of some producers, or with open transactions of some age.

            kafka.admin.list_transactions(states=["Ongoing"], older_than=60)

        `older_than` is in seconds (brokers since 3.8), `pattern` a regular expression that the whole id matches
        (since 4.1; of RE2, which has no look-ahead and no references back). Every broker knows the ids that it
        coordinates. With errors="collect", a broker that could not be asked is in `errors`, as "broker 1".
        """
        work = self._admin.list_transactions(
            states=states,
            producer_ids=producer_ids,
            older_than=older_than,
            pattern=pattern,
            errors=errors,
            timeout=timeout,
        )
        return self._call(work)

    def describe_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> TransactionDescription:
        """A transactional id and its transaction; TransactionalIdNotFoundError where there is none."""
        work = self._admin.describe_transaction(transactional_id, timeout=timeout)
        return self._call(work)

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Transactional ids with their transactions: state, producer, partitions, by id.

        kafka.admin.describe_transactions(["billing-1", "billing-2"], errors="collect")
        """
        work = self._admin.describe_transactions(transactional_ids, errors=errors, timeout=timeout)
        return self._call(work)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, errors: Errors = "raise", timeout: float | None = None
    ) -> Results[str, FencedProducer]:
        """Takes transactional ids away from the producers that use them, and aborts what these have open.

            kafka.admin.fence_producers(["billing-1"])

        A producer that still runs fails with its next request. An id that nobody has used comes to be.
        """
        work = self._admin.fence_producers(transactional_ids, errors=errors, timeout=timeout)
        return self._call(work)

    def force_terminate_transaction(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> FencedProducer:
        """Aborts whatever a transactional id has open, and fences its producer; for an id that exists (KIP-939).

        Other than `fence_producers` it makes no id: TransactionalIdNotFoundError where there is none.
        """
        work = self._admin.force_terminate_transaction(transactional_id, timeout=timeout)
        return self._call(work)

    def find_hanging_transactions(
        self,
        partitions: Partitions | None = None,
        *,
        broker: int | None = None,
        max_timeout: float = 900.0,
        timeout: float | None = None,
    ) -> tuple[HangingTransaction, ...]:
        """The transactions that hang in these partitions, or in all, or in those that a broker leads.

            for hanging in kafka.admin.find_hanging_transactions("orders"):
                kafka.admin.abort_transaction(hanging.partition, producer=hanging.producer)

        One hangs if its producer has written nothing for `max_timeout` seconds, and no coordinator knows of it in
        that partition. `max_timeout` must not be below transaction.max.timeout.ms of the brokers: transactions that
        are younger may be on their way.
        """
        work = self._admin.find_hanging_transactions(
            partitions, broker=broker, max_timeout=max_timeout, timeout=timeout
        )
        return self._call(work)

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer: ProducerState | None = None,
        timeout: float | None = None,
    ) -> ProducerState:
        """Ends a transaction that hangs in a partition: its records there count as aborted.

            kafka.admin.abort_transaction(ottla.TopicPartition("orders", 0), start_offset=42)

        It is the one that begins at `start_offset`, or that of `producer`, as `describe_producers` and
        `find_hanging_transactions` give it. The coordinator is not told: of a transaction that it knows, it writes
        the end that it decides on as well. This is for those that hang; `force_terminate_transaction` aborts others.
        """
        work = self._admin.abort_transaction(
            partition, start_offset=start_offset, producer=producer, timeout=timeout
        )
        return self._call(work)

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: Literal["preferred", "unclean"] = "preferred",
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, bool]:
        """Has leaders elected for these partitions, or for all: whether each got another one.

        "preferred" is the first replica of each; "unclean" takes any that is alive where none is in sync, and
        loses what only the others have. Of all partitions, only those that needed an election are returned.
        """
        work = self._admin.elect_leaders(partitions, election=election, errors=errors, timeout=timeout)
        return self._call(work)

    def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Moves the replicas of partitions to these brokers, the preferred leader first; None stops a move.

        Returns when the moves have begun; `list_partition_reassignments` has those that are not over.
        """
        work = self._admin.alter_partition_reassignments(replicas, errors=errors, timeout=timeout)
        return self._call(work)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Those of these partitions, or of all, whose replicas are being moved."""
        work = self._admin.list_partition_reassignments(partitions, timeout=timeout)
        return self._call(work)

    def alter_replica_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        errors: Errors = "raise",
        timeout: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Moves replicas that a broker has to others of its log directories, by their absolute paths.

        Returns when the moves have begun; until one is over, `describe_log_dirs` shows its replica in both
        directories, in the new one with `is_future`.

            kafka.admin.alter_replica_log_dirs(1, {ottla.TopicPartition("orders", 0): "/disk-2/kafka"})
        """
        work = self._admin.alter_replica_log_dirs(broker, paths, errors=errors, timeout=timeout)
        return self._call(work)

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id and its brokers."""
        work = self._admin.describe_cluster(timeout=timeout)
        return self._call(work)

    def list_brokers(self, *, timeout: float | None = None) -> tuple[BrokerDescription, ...]:
        """The brokers that are alive, by id."""
        work = self._admin.list_brokers(timeout=timeout)
        return self._call(work)

    def api_versions(self, broker: int, *, timeout: float | None = None) -> dict[str, VersionRange]:
        """The versions of each API that a broker serves, by Kafka's name; without those unknown here."""
        work = self._admin.api_versions(broker, timeout=timeout)
        return self._call(work)

    def describe_features(self, *, broker: int | None = None, timeout: float | None = None) -> Features:
        """The levels of features such as metadata.version, as `broker` or any other knows them."""
        work = self._admin.describe_features(broker=broker, timeout=timeout)
        return self._call(work)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        kind: Literal["upgrade", "safe_downgrade", "unsafe_downgrade"] = "upgrade",
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Sets feature levels, all or none; level 0 switches a feature off."""
        work = self._admin.update_features(levels, kind=kind, validate_only=validate_only, timeout=timeout)
        self._call(work)

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> Results[int, dict[str, LogDir]]:
        """The log directories of these brokers, or of all: what lies in them, by path.

        A broker that could not be reached is in `errors` of the result, if others could.

            for broker, directories in kafka.admin.describe_log_dirs().items():
                for path, directory in directories.items():
                    print(broker, path, sum(replica.size for replica in directory.replicas.values()))
        """
        work = self._admin.describe_log_dirs(brokers, timeout=timeout)
        return self._call(work)
