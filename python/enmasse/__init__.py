"""EnMasse: messaging as a service.

A client names one address; the platform gives it protocol, semantics and isolation. This package
is the control plane: it keeps the declared resources, compiles them into a Plan and hands that to
the data plane, the Rust extension behind `enmasse.native`. No message passes through Python on its
way between two clients.
"""

__version__ = "0.1.0"
