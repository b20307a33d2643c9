"""What a simulation must own is injected: no clock, randomness, socket or thread of one's own.

A cluster and its clients replay from one seed only if every source of surprise comes through the Runtime
(ottla/runtime.py). Below it nothing reaches for the system, with the few exceptions in ALLOWED, each with its
reason; wire and _native have no I/O at all. asyncio itself is fine: it runs on the virtual loop, where
`sleep`, `call_later` and `loop.time` are virtual too. Unordered iteration has a module of its own.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.architecture.source import Source, Violation, builtin_call, imported_by_name

SANS_IO = frozenset({"wire", "_native"})
GUARDED = SANS_IO | {
    "client",
    "broker",
    "net",
    "serde",
    "sim",
    "runtime",
    "errors",
    "config",
    "hooks",
    "_extras",
}

# A module, or one name in it -> what it is a way to get at. An import of it counts as a use.
_BANNED: dict[str, str] = {
    **dict.fromkeys(("time", "sched"), "clock"),
    **dict.fromkeys(
        (
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
        ),
        "clock",
    ),
    **dict.fromkeys(("random", "secrets", "uuid", "os.urandom", "os.getrandom"), "randomness"),
    **dict.fromkeys(("socket", "select", "selectors", "socketserver"), "network"),
    **dict.fromkeys(
        (
            "asyncio.open_connection",
            "asyncio.start_server",
            "asyncio.open_unix_connection",
            "asyncio.start_unix_server",
        ),
        "network",
    ),
    **dict.fromkeys(("threading", "_thread", "concurrent.futures", "asyncio.to_thread"), "threads"),
    **dict.fromkeys(("multiprocessing", "subprocess", "asyncio.create_subprocess_exec"), "processes"),
    **dict.fromkeys(("asyncio.create_subprocess_shell", "os.fork"), "processes"),
    **dict.fromkeys(("asyncio.wait", "asyncio.as_completed"), "order"),
    # In Python 3.11 it cancels its tasks in the order of a set.
    "asyncio.TaskGroup": "order",
    "asyncio.get_event_loop": "loop",
}
# `from uuid import UUID` is a value type (topic ids); it is the generators beside it that surprise.
_HARMLESS = frozenset({"uuid.UUID"})
# Methods of an event loop that open sockets, whatever the loop is called here.
_LOOP_METHODS = frozenset({"create_connection", "create_server", "create_datagram_endpoint", "sock_connect"})

_BANNED_SANS_IO: dict[str, str] = {
    **dict.fromkeys(("asyncio", "ssl"), "io"),
    **dict.fromkeys(("pathlib", "importlib.resources", "tempfile", "shutil", "mmap"), "files"),
    **dict.fromkeys(("open", "io.open", "os.open", "gzip.open", "bz2.open", "lzma.open"), "files"),
}

_EVERYTHING_BANNED = _BANNED | _BANNED_SANS_IO

_INSTEAD = {
    "clock": "take the time from the Runtime",
    "randomness": "take randomness, ids and nonces from the Runtime",
    "network": "connect and listen through the Runtime",
    "threads": "hand long work to the Runtime's executor",
    "processes": "a library starts no processes",
    "order": "its order differs from run to run: await the tasks of a list in turn, or use asyncio.gather",
    "hash": "it changes with the hash seed: use murmur2 or CRC32C of the bytes",
    "address": "it changes from run to run: order by a field of the object",
    "loop": "use asyncio.get_running_loop",
    "io": "this layer is sans-io: let net do it and hand the bytes in",
    "files": "this layer is sans-io: read the file above it and hand the bytes in",
}
ANY = "any"

# File inside the package -> {what it may get at: why}. An entry for a file that stopped using it fails.
ALLOWED: dict[str, dict[str, str]] = {
    "runtime.py": {
        ANY: "the default Runtime: the system's clock, randomness, network and threads, for everyone else"
    },
    "client/blocking/driver.py": {
        "threads": "who runs the blocking Client's loop, and when: the one module of the client with threads"
    },
    "broker/cluster/blocking.py": {
        "threads": "the blocking Cluster runs its loop in a thread: the one module of the broker that has one"
    },
    "sim/runtime.py": {"randomness": "the seeded generator that every simulated choice comes from"},
    "wire/schema.py": {"files": "reads the schema table that ships inside the package"},
}

Allowances = Mapping[str, Mapping[str, str]]


def outside_the_runtime(sources: Iterable[Source], allowed: Allowances = ALLOWED) -> Iterator[Violation]:
    """Every use of a clock, randomness, network, thread or hash order that the Runtime should provide."""
    for source in sources:
        permitted = allowed.get(source.inside, {})
        reported = set()
        for line, name, capability in _uses(source):
            if capability not in permitted and ANY not in permitted and (line, capability) not in reported:
                reported.add((line, capability))
                yield source.violation(line, f"{source.layer} uses {name}: {_INSTEAD[capability]}")


def stale_allowances(sources: Iterable[Source], allowed: Allowances = ALLOWED) -> Iterator[Violation]:
    """Exceptions that a file no longer needs. A file that does not exist yet may have one waiting."""
    for source in sources:
        used = {capability for _, _, capability in _uses(source)}
        for capability in allowed.get(source.inside, {}):
            if capability not in used and not (capability == ANY and used):
                yield source.violation(
                    1,
                    f"is allowed {capability} but does not use it: delete the entry in {Path(__file__).name}",
                )


def _uses(source: Source) -> Iterator[tuple[int, str, str]]:
    """(line, name as written in full, capability) for everything this layer may not get at by itself."""
    if source.package != "ottla" or source.layer not in GUARDED:
        return
    banned = _EVERYTHING_BANNED if source.layer in SANS_IO else _BANNED
    for node in source.nodes:
        for name in _names(node, source):
            capability = _lookup(name, banned)
            if capability is not None:
                yield getattr(node, "lineno", 1), name, capability
    yield from _loop_methods(source)
    yield from _hash_order(source)


def _names(node: ast.AST, source: Source) -> Iterator[str]:
    """The full names that one node imports, reads from a module, or calls as a builtin."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        name = source.dotted(node)
        # The import of a banned module is reported once, at the import, not at each use.
        if name is not None and name in _EVERYTHING_BANNED:
            yield name
    elif (imported := imported_by_name(node)) is not None:
        yield imported
    elif builtin_call(node, source) == "open":
        yield "open"


def _lookup(name: str, banned: Mapping[str, str]) -> str | None:
    if name in _HARMLESS:
        return None
    parts = name.split(".")
    prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((banned[prefix] for prefix in prefixes if prefix in banned), None)


def _loop_methods(source: Source) -> Iterator[tuple[int, str, str]]:
    for node in source.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _LOOP_METHODS
        ):
            yield node.lineno, f"loop.{node.func.attr}", "network"


def _hash_order(source: Source) -> Iterator[tuple[int, str, str]]:
    """`hash` depends on the hash seed and `id` on memory: neither may decide what is seen outside."""
    own_hash = {
        inner
        for function in source.nodes
        if isinstance(function, ast.FunctionDef) and function.name == "__hash__"
        for inner in ast.walk(function)
    }
    for node in source.nodes:
        if builtin_call(node, source) == "hash" and node not in own_hash:
            yield getattr(node, "lineno", 1), "hash()", "hash"
        if isinstance(node, ast.keyword) and node.arg == "key" and _orders_by_address(node.value):
            yield node.value.lineno, "id or hash as a sort key", "address"


def _orders_by_address(key: ast.expr) -> bool:
    if isinstance(key, ast.Lambda):
        calls = [node.func for node in ast.walk(key.body) if isinstance(node, ast.Call)]
        return any(isinstance(called, ast.Name) and called.id == "id" for called in calls)
    return isinstance(key, ast.Name) and key.id in ("id", "hash")
