import pytest

from ottla.broker.metadata.names import is_internal, unified, why_invalid


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * 249, "__consumer_offsets"])
def test_a_good_name_has_nothing_wrong(name: str) -> None:
    assert why_invalid(name) is None


# The sentences are those of Apache Kafka 4.3.1.
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        *(
            (
                bad,
                f"Topic name is invalid: '{bad}' contains one or more characters other than ASCII "
                "alphanumerics, '.', '_' and '-'",
            )
            for bad in ("a b", "é", "a/b", "a\n", "日本")
        ),
    ],
)
def test_a_bad_name_is_refused_with_kafkas_sentence(name: str, sentence: str) -> None:
    assert why_invalid(name) == sentence


def test_names_collide_when_dots_and_underscores_are_taken_for_the_same() -> None:
    assert unified("a.b_c") == unified("a_b.c") == "a_b_c"
    assert unified("a-b") is None


def test_kafkas_own_topics_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert is_internal("__share_group_state")
    assert not is_internal("__cluster_metadata")
    assert not is_internal("orders")
