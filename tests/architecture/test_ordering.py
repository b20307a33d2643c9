"""Nothing depends on the order of a set; proven on snippets, then kept on the tree."""

from textwrap import dedent

import pytest

from tests.architecture.ordering import unordered_iteration
from tests.architecture.source import Source, real_tree, report

HINT = "changes with the hash seed: use sorted(), or a dict or list"


def found(code: str, path: str = "ottla/broker/cluster/node.py") -> str:
    return report(unordered_iteration([Source(path, dedent(code).strip("\n"))]))


def test_the_tree_never_depends_on_the_order_of_a_set() -> None:
    assert report(unordered_iteration(real_tree())) == ""


@pytest.mark.parametrize(
    "expression",
    [
        "{1, 2}",
        "{x.id for x in nodes}",
        "set(nodes)",
        "frozenset(nodes)",
        "set(a) | b",
        "a & set(b)",
        "set(a) - set(b)",
        "set(a) ^ b",
        "a.keys() & b",
        "a - b.keys()",
        "set(a).union(b)",
        "set(a).copy()",
        "set(a) if a else ()",
        "(a or set())",
        "(known := set(a))",
        "asyncio.all_tasks()",
    ],
)
def test_an_expression_that_is_evidently_a_set_is_reported(expression: str) -> None:
    assert (
        found(f"for x in {expression}: pass")
        == f"src/ottla/broker/cluster/node.py:1: loops over a set, in an order that {HINT}"
    )


@pytest.mark.parametrize(
    ("use", "verb"),
    [
        ("for x in members: send(x)", "loops over"),
        ("out = [x for x in members]", "loops over"),
        ("out = {x: 1 for x in members}", "loops over"),
        ("out = [y for x in groups for y in members]", "loops over"),
        ("out = send(x for x in members)", "loops over"),
        ("out = ','.join(str(x) for x in members)", "loops over"),
        ("out = list(members)", "list() shows the order of"),
        ("out = tuple(members)", "tuple() shows the order of"),
        ("out = next(iter(members))", "iter() shows the order of"),
        ("out = list(map(str, members))", "map() shows the order of"),
        ("out = ','.join(members)", "join() shows the order of"),
        ("out = dict.fromkeys(members)", "fromkeys() shows the order of"),
        ("out = dict(enumerate(members))", "enumerate() shows the order of"),
        ("out = sorted(zip(members, ids))", "zip() shows the order of"),
        ("out.extend(members)", "extend() shows the order of"),
        ("out = [*members]", "unpacks"),
        ("out = (0, *members)", "unpacks"),
        ("send(*members)", "unpacks"),
        ("a, b = members", "unpacks"),
        ("first, *rest = members", "unpacks"),
        ("out = members.pop()", "pop() takes whichever comes first from"),
        ("out = min(members, key=load)", "min() with a key picks among equals from"),
        ("out = max((x for x in members), key=load)", "loops over"),
        ("def f():\n    yield from members", "yields from"),
    ],
)
def test_every_way_to_see_the_order_is_reported(use: str, verb: str) -> None:
    told = found(f"members = set(nodes)\n{use}")
    line = 3 if use.startswith("def") else 2
    assert told == f"src/ottla/broker/cluster/node.py:{line}: {verb} a set, in an order that {HINT}"


WHERE_SETS_COME_FROM = {
    "a parameter": """
        def f(isr: set[int]) -> None:
            for node in isr: send(node)  # here
        """,
    "a parameter that may be missing": """
        def f(*, isr: "frozenset[int] | None" = None) -> None:
            for node in isr or (): send(node)  # here
        """,
    "an abstract set": """
        from collections import abc
        async def f(isr: abc.Set[int]) -> None:
            for node in isr: send(node)  # here
        """,
    "an annotated name": """
        def f() -> None:
            isr: set[int] = load()
            for node in isr: send(node)  # here
        """,
    "a name of the module, used above its definition": """
        def f() -> None:
            for api in APIS: send(api)  # here
        APIS: Final[frozenset[int]] = load()
        """,
    "an attribute annotated in the class": """
        @dataclass
        class Partition:
            isr: set[int]
            def f(self) -> None:
                for node in self.isr: send(node)  # here
        """,
    "an attribute assigned in another method": """
        class Partition:
            def f(self) -> None:
                for node in self.isr: send(node)  # here
            def __init__(self, isr: set[int]) -> None:
                self.isr = isr
        """,
    "an attribute that begins as None": """
        class Partition:
            def __init__(self) -> None:
                self.isr = None
                self.isr = set()
            def f(self) -> None:
                for node in self.isr: send(node)  # here
        """,
    "an attribute of another object of the module": """
        class Partition:
            isr: set[int]
        def f(partition: Partition) -> None:
            for node in partition.isr: send(node)  # here
        """,
    "a property": """
        class Partition:
            @property
            def isr(self) -> set[int]: ...
            def f(self) -> None:
                for node in self.isr: send(node)  # here
        """,
    "what a function returns": """
        async def isr() -> set[int]: ...
        async def f() -> None:
            for node in await isr(): send(node)  # here
        """,
    "what a method returns": """
        class Partition:
            def isr(self) -> set[int]: ...
            def f(self) -> None:
                for node in self.isr(): send(node)  # here
        """,
    "the value of a dict": """
        class Node:
            isr: dict[str, set[int]]
            def f(self) -> None:
                for node in self.isr["orders"]: send(node)  # here
        """,
    "the value of a dict, by get": """
        def f(isr: dict[str, set[int]]) -> None:
            for node in isr.get("orders", ()): send(node)  # here
        """,
    "a defaultdict": """
        waiting = defaultdict(set)
        def f() -> None:
            for node in waiting["orders"]: send(node)  # here
        """,
    "the values of a dict": """
        def f(isr: Mapping[str, AbstractSet[int]]) -> None:
            for nodes in isr.values():
                for node in nodes: send(node)  # here
        """,
    "the items of a dict": """
        def f(isr: dict[str, set[int]]) -> None:
            out = [node for topic, nodes in isr.items() for node in nodes]  # here
        """,
    "an enclosing function": """
        def f(isr: set[int]) -> None:
            def g() -> None:
                for node in isr: send(node)  # here
        """,
    "a tuple assignment": """
        def f() -> None:
            added, removed = set(a), []
            for node in removed: send(node)
            for node in added: send(node)  # here
        """,
}


@pytest.mark.parametrize("case", WHERE_SETS_COME_FROM)
def test_a_set_is_recognised_wherever_it_comes_from(case: str) -> None:
    code = dedent(WHERE_SETS_COME_FROM[case]).strip("\n")
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "# here" in text)
    assert (
        found(code) == f"src/ottla/broker/cluster/node.py:{line}: loops over a set, in an order that {HINT}"
    )


@pytest.mark.parametrize(
    "use",
    [
        "out = sorted(members)",
        "out = sorted(members, key=str)",
        "out = len(members), min(members), max(members), sum(members), any(members), all(members)",
        "out = set(members), frozenset(members)",
        "out = 3 in members and 4 not in members",
        "out = {x + 1 for x in members}",
        "out = sorted(x.id for x in members if x)",
        "out = sorted([x.id for x in members])",
        "out = sorted(list(members))",
        "out = sorted(map(str, members))",
        "out = sorted([*members, 7])",
        "out = any(x > 1 for x in members)",
        "out = max(*members)",
        "out = min(sorted(members), key=load)",
        "out = {*members, 7}",
        "out = set().union(*members)",
        "members.update(x + 1 for x in other)",
        "members.update(x + 1 for x in members)",
        "members.discard(3)",
        "for x in sorted(members): send(x)",
        "(only,) = members",
        "out = members | other",
        "if members <= other: send(members)",
        "members = sorted(members)\nfor x in members: send(x)",
        "out = [members for members in rows]\nout = [x for members in rows for x in members]",
        "def f(members: list[int]) -> None:\n    for x in members: send(x)",
        "def f() -> None:\n    members = [1]\n    return members.pop()",
        "for members in rows:\n    for x in members: send(x)",
    ],
)
def test_a_use_that_forgets_the_order_passes(use: str) -> None:
    assert found(f"members = set(nodes)\n{use}") == ""


@pytest.mark.parametrize(
    "code",
    [
        "for x in {1: 'a', 2: 'b'}: send(x)",
        "for x in table.keys(): send(x)",
        "for key, value in table.items(): send(key)",
        "for x in a - b: send(x)",
        "out = table.pop('x')\nout = stack.pop()",
        "for x in set_of(nodes): send(x)",
        "def f(names: list[str], table: dict[str, set[int]]) -> None:\n    for x in names: send(table[x])",
        "def f(table: dict[str, set[int]]) -> None:\n    for topic in table: send(topic)",
        "def f(rows: list[set[int]]) -> None:\n    for row in rows: send(len(row))",
        "class A:\n    x: set[int]\nclass B:\n    x: list[int]\ndef f(b: B) -> None:\n    send(*b.x)",
        "class A:\n    x: set[int]\nclass B:\n    x: list[int]\n    def f(self): send(*self.x)",
    ],
)
def test_a_look_alike_passes(code: str) -> None:
    assert found(code) == ""


def test_a_comment_with_its_reason_excuses_the_line() -> None:
    assert found("for x in {1, 2}:  # order does not matter: each only sets its own flag\n    x.set()") == ""


@pytest.mark.parametrize("comment", ["# order does not matter", "# order does not matter:  "])
def test_a_comment_without_its_reason_is_reported(comment: str) -> None:
    told = found(f"for x in {{1, 2}}:  {comment}\n    x.set()")
    assert (
        told
        == "src/ottla/broker/cluster/node.py:1: `# order does not matter:` needs its reason behind the colon"
    )


@pytest.mark.parametrize("layer", ["client", "broker", "sim", "net", "wire"])
def test_the_layers_of_a_simulation_are_watched(layer: str) -> None:
    assert HINT in found("x = list({1, 2})", f"ottla/{layer}/module.py")


@pytest.mark.parametrize("path", ["ottla/cli/main.py", "ottla/errors.py", "pyspark_ottla/__init__.py"])
def test_other_layers_are_not(path: str) -> None:
    assert found("x = list({1, 2})", path) == ""
