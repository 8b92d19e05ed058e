"""From what is declared to what is so.

`Admission` is the only way in: it decides at once what can be decided at once. `Manager` watches
the store, keeps the engine's Plan equal to it, and writes what the engine has proven into status.
`Recorder` has it count what spaces come to; `Interim` is where that outlives a process that is
killed.
"""

from enmasse.control.admission import Admission, Change
from enmasse.control.events import Events
from enmasse.control.interim import Interim
from enmasse.control.manager import Manager
from enmasse.control.recorder import Recorder

__all__ = ["Admission", "Change", "Events", "Interim", "Manager", "Recorder"]
