"""What the API stands on."""

from collections.abc import Callable
from dataclasses import dataclass

from enmasse.api.statistics import Statistics
from enmasse.control import Admission
from enmasse.engines import Engine
from enmasse.store import Store


@dataclass(frozen=True, slots=True)
class Platform:
    """The parts of the running process that requests are about."""

    store: Store
    admission: Admission
    engine: Engine
    statistics: Statistics
    is_ready: Callable[[], bool]
    """Whether everything declared at start is served."""
