"""How a simulation itself can fail, as opposed to what runs in it."""

from ottla.errors import KafkaError


class SimulationError(KafkaError):
    """The simulation did not come to a proper end."""


class SimulationStalledError(SimulationError):
    """All tasks wait and nothing is going to happen: a deadlock."""


class SimulationOverranError(SimulationError):
    """The simulation was not over within its limit of virtual time."""


class UnfinishedTasksError(SimulationError):
    """The main function returned and left tasks behind."""


class SimulationCallbackError(SimulationError):
    """A callback failed, or a task that was not awaited."""
