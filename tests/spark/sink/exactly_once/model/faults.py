"""Faults strike as long as there are some left of their kind, and of all kinds together."""

from __future__ import annotations

from tests.spark.sink.exactly_once.model.state import DRIVER, Request, State


def may_strike(state: State, kind: str) -> bool:
    return state.left.together > 0 and getattr(state.left, kind) > 0


def struck(state: State, kind: str) -> State:
    left = state.left
    return state._replace(
        left=left._replace(**{kind: getattr(left, kind) - 1, "together": left.together - 1})
    )


def sent_too_late(state: State, slot: int, *, is_commit: bool) -> State:
    """An EndTxn of the current epoch is under way, and its sender has given it up."""
    request = Request(slot, is_commit)
    return struck(state, "lost")._replace(late=tuple(sorted({*state.late, request})))


def name_of(slot: int) -> str:
    return "the driver's id" if slot == DRIVER else f"slot {slot}"
