"""Reconciliation of observed state with declared state.

`Admission` decides every write. `Manager` watches the store and runs the reconcilers, which keep
the engine's Plan equal to it and write the engine's confirmations into statuses. `Recorder` samples
the usage of spaces for them; `UsageFile` preserves that usage if the process is killed.
"""

from enmasse.control.admission import Admission, Change
from enmasse.control.events import Events
from enmasse.control.manager import Manager
from enmasse.control.recorder import Recorder
from enmasse.control.usage_file import UsageFile

__all__ = ["Admission", "Change", "Events", "Manager", "Recorder", "UsageFile"]
