"""The parts of the platform that the API uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enmasse.api.monitoring.statistics import Statistics
from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir
from enmasse.control import Admission
from enmasse.engines import Engine
from enmasse.resources import Resource
from enmasse.store import Store

if TYPE_CHECKING:
    from enmasse.api.history.history import History


@dataclass(frozen=True, slots=True)
class Platform:
    """The parts of the running process that requests need."""

    store: Store
    computed: Store
    """Generated resources, in memory: events and schemas."""

    admission: Admission
    engine: Engine
    statistics: Statistics
    clock: Clock
    is_ready: Callable[[], bool]
    """Whether everything declared at start is served."""

    endpoints: Callable[[], Mapping[str, object]] = dict
    """Host and port of every listener, by its kind."""

    history: "Callable[[], History | None]" = lambda: None
    """The history, if this process holds the messages."""

    data: Callable[[], DataDir | None] = lambda: None
    """The data folder, if this process holds the messages."""

    is_cordoned: Callable[[], bool] = lambda: False
    """Whether this node refuses new connections."""

    def store_of(self, model: type[Resource]) -> Store:
        """Return the store of a kind."""
        return self.computed if model.read_only else self.store
