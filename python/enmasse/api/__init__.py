"""The HTTP API: resources in the conventions of Kubernetes, health, metrics, connections.

    GET                            /healthz /readyz /metrics
    GET                            /apis /apis/enmasse.io/v1beta1
    GET (?watch=true)              /apis/enmasse.io/v1beta1/KINDS
    GET (?watch=true) POST         /apis/enmasse.io/v1beta1/namespaces/NS/KINDS
    GET PUT PATCH DELETE           /apis/enmasse.io/v1beta1/namespaces/NS/KINDS/NAME
    POST                           /apis/enmasse.io/v1beta1/namespaces/NS/addresses/NAME/OPERATION
    GET                            /apis/enmasse.io/v1beta1/connections
    POST DELETE                    /apis/enmasse.io/v1beta1/connections/ID/trace

KINDS is addressspaces, addresses or messagingusers; OPERATION is purge, peek, move, copy or
redrive. Everything but the health pages wants the token
of the data folder; `/metrics` wants it from other machines only.
"""

from enmasse.api.app import Platform, create_app
from enmasse.api.server import Server, bind

__all__ = ["Platform", "Server", "bind", "create_app"]
