"""Private keys and passwords that stand in an address space: they go into Secrets beside it. Pure.

What is stored of the space names the Secret. Whoever may read the Secrets of the namespace may read
them, and nobody else.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from enmasse.base.errors import Code, Fault, Invalid
from enmasse.resources import AddressSpace, Key, Resource, Secret
from enmasse.resources.connectors import Connector, KeyOfSecret, Value
from enmasse.resources.core import NamedMetadata
from enmasse.resources.endpoints import Endpoint

TLS_TYPE = "kubernetes.io/tls"
CERTIFICATE, KEY, PASSWORD = "tls.crt", "tls.key", "password"
_TYPES = (TLS_TYPE, "Opaque")
"""Types of a Secret that may be written into."""

Get = Callable[[Key], Resource | None]


class Withheld(NamedTuple):
    """A space as it may be stored, and the Secrets that hold what was taken out of it."""

    space: AddressSpace
    secrets: list[Secret]


def withheld(space: AddressSpace, before: Resource | None, get: Get) -> Withheld:
    """Take keys and passwords out of a space; `get` returns the Secrets that there are.

    Raises: Invalid if a Secret of that name is for something else.
    """
    known = before.spec.endpoints if isinstance(before, AddressSpace) else ()
    certificates = {one.name: one.cert.tls_cert for one in known if one.cert}
    secrets: list[Secret] = []
    endpoints: list[Endpoint] = []
    for place, endpoint in enumerate(space.spec.endpoints):
        endpoints.append(named := _with_secret_name(space, endpoint))
        if found := _given(named, certificates.get(endpoint.name)):
            path = f"spec.endpoints[{place}].cert.secretName"
            name = secret_name(space, named)
            secrets.append(_written(space, name, TLS_TYPE, found, get, path))
    connectors: list[Connector] = []
    for place, connector in enumerate(space.spec.connectors):
        name = f"{space.metadata.name}-{connector.name.lower()}-connector"
        values = dict(_values(connector))
        if values:
            path = f"spec.connectors[{place}].name"
            secrets.append(_written(space, name, "Opaque", values, get, path))
        connectors.append(_referring(connector, name))
    spec = space.spec.model_copy(
        update={"endpoints": tuple(endpoints), "connectors": tuple(connectors)}
    )
    return Withheld(space.model_copy(update={"spec": spec}).public(), secrets)


def secret_name(space: AddressSpace, endpoint: Endpoint) -> str:
    """Return the name of the Secret that has the certificate of an endpoint."""
    cert = endpoint.cert
    generated = f"{space.metadata.name}-{endpoint.name}-cert"
    return (cert.secret_name if cert else None) or generated


def _with_secret_name(space: AddressSpace, endpoint: Endpoint) -> Endpoint:
    if endpoint.cert is None or endpoint.cert.provider != "certBundle":
        return endpoint
    cert = endpoint.cert.model_copy(update={"secret_name": secret_name(space, endpoint)})
    return endpoint.model_copy(update={"cert": cert})


def _given(endpoint: Endpoint, certificate_before: str | None) -> dict[str, str]:
    """Return what a request says anew of a certificate and its key; a certificate that it only
    repeats is left as the Secret has it, which others may have renewed."""
    cert = endpoint.cert
    if cert is None or cert.provider != "certBundle":
        return {}
    if cert.tls_key is None and cert.tls_cert == certificate_before:
        return {}
    given = {CERTIFICATE: cert.tls_cert, KEY: cert.tls_key}
    return {name: value for name, value in given.items() if value is not None}


def _values(connector: Connector) -> Iterator[tuple[str, str]]:
    """Yield what of a connector is secret, in base64, by its name in the Secret."""
    tls, credentials = connector.tls, connector.credentials
    for name, one in (
        (KEY, tls.client_key if tls else None),
        (PASSWORD, credentials.password if credentials else None),
    ):
        if one is not None and one.value is not None:
            yield name, base64.b64encode(one.value.encode()).decode()


def _referring(connector: Connector, name: str) -> Connector:
    """Return a connector that names a Secret for what is secret of it."""
    update: dict[str, object] = {}
    for part, field, key in (("tls", "client_key", KEY), ("credentials", "password", PASSWORD)):
        own = getattr(connector, part)
        one: Value | None = getattr(own, field) if own else None
        if one is not None and one.value is not None:
            reference = Value(value_from_secret=KeyOfSecret(name=name, key=key))
            update[part] = own.model_copy(update={field: reference})
    return connector.model_copy(update=update) if update else connector


def _written(
    space: AddressSpace, name: str, type_: str, data: Mapping[str, str], get: Get, path: str
) -> Secret:
    namespace = space.metadata.namespace
    before = get(Key("Secret", namespace, name))
    if not isinstance(before, Secret):
        metadata = NamedMetadata(name=name, namespace=namespace)
        # A Secret of type kubernetes.io/tls has both of its parts, however empty.
        parts = dict.fromkeys((CERTIFICATE, KEY), "") if type_ == TLS_TYPE else {}
        return Secret(metadata=metadata, type=type_, data=parts | dict(data))
    problem = None
    if before.type not in _TYPES:
        problem = f"Secret {name!r} is of type {before.type}; name another"
    elif before.immutable and any(before.data.get(key) != one for key, one in data.items()):
        problem = f"Secret {name!r} is immutable; name another, or leave out key and certificate"
    if problem is not None:
        fault = Fault(path, problem)
        name = space.metadata.name
        raise Invalid(Code.FIELD_INVALID, f"{space.key}: {fault}", faults=[fault], name=name)
    return before.model_copy(update={"data": before.data | dict(data)})
