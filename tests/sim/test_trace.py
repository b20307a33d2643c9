"""A trace keeps the latest deliveries and a digest of all."""

from ottla.sim.trace import Arrival, Trace


def arrival(number: int) -> Arrival:
    return Arrival(0.5 * number, number, "a/a:1", "b/b:2", "data", 10, 0xABCD)


def test_a_delivery_is_one_readable_line() -> None:
    assert str(arrival(3)) == "1.500000000 #3 a/a:1 -> b/b:2 data 10 0000abcd"


def test_the_digest_is_of_everything_and_of_its_order() -> None:
    first, second, other = Trace(), Trace(kept=2), Trace()
    for number in range(5):
        first.add(arrival(number))
        second.add(arrival(number))
        other.add(arrival(4 - number))
    assert first.digest() == second.digest() != other.digest()
    assert first.count == second.count == 5
    assert list(second.latest) == [arrival(3), arrival(4)]
