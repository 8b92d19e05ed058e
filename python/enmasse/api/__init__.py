"""The HTTP API: resources in the conventions of Kubernetes, health, metrics, connections.

    GET                            /healthz /livez /readyz /metrics /version
    GET                            /api /apis /apis/GROUP /api/v1 /apis/GROUP/VERSION
    GET                            /openapi/v2 /openapi/v3
    GET (?watch=true)              BASE/KINDS
    GET (?watch=true) POST DELETE  BASE/namespaces/NS/KINDS
    GET PUT PATCH DELETE           BASE/namespaces/NS/KINDS/NAME
    GET                            BASE/namespaces/NS/KINDS/NAME/status
    POST                           BASE/namespaces/NS/addresses/NAME/OPERATION
    GET                            BASE/connections
    GET (?follow=true)             BASE/logs
    GET                            BASE/audit
    POST DELETE                    BASE/connections/ID/trace
    GET                            BASE/[namespaces/NS/]samples overview query_range
    GET                            BASE/namespaces/NS/connections
    GET DELETE                     BASE/namespaces/NS/connections/ID
    GET                            BASE/namespaces/NS/addresses/NAME/links
    POST                           BASE/namespaces/NS/addressspaces/NAME/accessreviews
    GET                            / /console/ and everything below

BASE is /api/v1 or /apis/GROUP/VERSION; which kinds are under which is in `enmasse.api.kinds`.
OPERATION, of addresses of enmasse.io, is purge, peek, move, copy, redrive, deadletters or send.
All pages except the health pages and the files of the console need a token or a session of the
console; `/metrics` needs one from other machines only. `docs/console/api.md` describes what the
console uses.
"""

from enmasse.api.app import Platform, create_app
from enmasse.api.http.server import Server, bind

__all__ = ["Platform", "Server", "bind", "create_app"]
