"""Which APIs a server serves, in which versions, and by which function.

A handler registers itself with one line when its module is imported; what ApiVersions says is derived from here.
Brokers and the controller have a registry each: `BROKER_APIS` is filled by the modules in handlers/, which that
package imports, and the controller's by controller/handlers.py. In which order handlers are called is dispatch.py's
business.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ottla.errors import BrokerError
from ottla.wire import Api, Message, api_for_key, api_named


class PendingResponse(Protocol):
    """The response of a handler that has to wait: a coroutine, or a request that is parked (delayed.py)."""

    def __await__(self) -> Generator[Any, Any, Message | None]: ...

    def close(self) -> None:
        """Gives the request up; called at its end, whether or not it was ever awaited."""
        ...


HandlerResult = Message | None | PendingResponse
"""What a handler returns: the response, at once or pending. None is no response."""
Refusal = Callable[[Any, BrokerError], Message | None]
"""The response that refuses a whole request; None, which closes the connection, where no response is expected."""
HandlerFunction = Callable[[Any, Any, Any], HandlerResult]
"""What it gets is the context of its server, the request, and the call."""
_Function = TypeVar("_Function", bound=HandlerFunction)


@dataclass(frozen=True, slots=True)
class Handler:
    """One API as one kind of server serves it."""

    api: Api
    versions: range
    function: HandlerFunction
    refuse: Refusal
    advertised: range


class Registry:
    """The handlers of one kind of server."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}

    def handles(
        self,
        request: type[Message],
        *,
        versions: range | None = None,
        refuse: Refusal | None = None,
        advertised: range | None = None,
    ) -> Callable[[_Function], _Function]:
        """Registers the function below it.

        Without `versions`, every version that is final. `refuse` makes the response that carries an error for
        the whole request; by default the response's own error code does. `advertised` differs from `versions` only
        where Kafka says it serves what it refuses.
        """
        api = api_for_key(request.API_KEY)
        served = (
            versions if versions is not None else range(api.stable_versions.low, api.stable_versions.high + 1)
        )

        def register(function: _Function) -> _Function:
            if api.key in self._handlers:
                raise ValueError(f"{api.name} already has a handler")
            self._handlers[api.key] = Handler(
                api, served, function, refuse or _refuse_at_the_top, advertised or served
            )
            return function

        return register

    def __iter__(self) -> Iterator[Handler]:
        return iter([self._handlers[key] for key in sorted(self._handlers)])

    def limited(self, max_versions: Mapping[str, int]) -> dict[int, Handler]:
        """The handlers by API key, with their versions cut: how to play an older Kafka. -1 takes an API away."""
        for name in max_versions:
            api_named(name)  # a name that the protocol does not have is a mistake worth an error
        limited: dict[int, Handler] = {}
        for handler in self:
            highest = max_versions.get(handler.api.name)
            if highest is None:
                limited[handler.api.key] = handler
                continue
            versions, advertised = _cut(handler.versions, highest), _cut(handler.advertised, highest)
            if advertised:
                limited[handler.api.key] = Handler(
                    handler.api, versions, handler.function, handler.refuse, advertised
                )
        return limited


def _cut(versions: range, highest: int) -> range:
    return range(versions.start, min(versions.stop, highest + 1))


def _refuse_at_the_top(request: Message, error: BrokerError) -> Message:
    response: Any = api_for_key(request.API_KEY).response()
    response.error_code = error.code
    if "error_message" in response.FIELDS:
        response.error_message = error.message
    return response  # type: ignore[no-any-return]


BROKER_APIS: Final = Registry()
"""What brokers serve."""
handles: Final = BROKER_APIS.handles
