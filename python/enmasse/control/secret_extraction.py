"""Moves private keys and passwords of an address space into Secrets. Pure.

The stored space references the Secret. Access to it follows the rights on Secrets of the namespace.
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
"""Secret types that may be written."""

Get = Callable[[Key], Resource | None]


class Withheld(NamedTuple):
    """A space for storage, and the Secrets with its extracted secrets."""

    space: AddressSpace
    secrets: list[Secret]


def extract_secrets(space: AddressSpace, before: Resource | None, get: Get) -> Withheld:
    """Extract keys and passwords from a space; `get` returns existing Secrets.

    Raises: Invalid if a Secret of that name has another purpose.
    """
    known = before.spec.endpoints if isinstance(before, AddressSpace) else ()
    # A request that repeats what is stored changes no Secret: it may have been renewed since.
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
    """Return the name of the Secret with the certificate of an endpoint."""
    cert = endpoint.cert
    generated = f"{space.metadata.name}-{endpoint.name}-cert"
    return (cert.secret_name if cert else None) or generated


def _with_secret_name(space: AddressSpace, endpoint: Endpoint) -> Endpoint:
    if endpoint.cert is None or endpoint.cert.provider != "certBundle":
        return endpoint
    cert = endpoint.cert.model_copy(update={"secret_name": secret_name(space, endpoint)})
    return endpoint.model_copy(update={"cert": cert})


def _given(endpoint: Endpoint, certificate_before: str | None) -> dict[str, str]:
    """Return a new certificate and key of a request; a repeated one is ignored, because the Secret
    may have been renewed since.
    """
    cert = endpoint.cert
    if cert is None or cert.provider != "certBundle":
        return {}
    if cert.tls_key is None and cert.tls_cert == certificate_before:
        return {}
    given = {CERTIFICATE: cert.tls_cert, KEY: cert.tls_key}
    return {name: value for name, value in given.items() if value is not None}


def _values(connector: Connector) -> Iterator[tuple[str, str]]:
    """Yield the secret values of a connector, in base64, by key in the Secret."""
    tls, credentials = connector.tls, connector.credentials
    for name, one in (
        (KEY, tls.client_key if tls else None),
        (PASSWORD, credentials.password if credentials else None),
    ):
        if one is not None and one.value is not None:
            yield name, base64.b64encode(one.value.encode()).decode()


def _referring(connector: Connector, name: str) -> Connector:
    """Return a connector that references a Secret for its secret values."""
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
        # A Secret of type kubernetes.io/tls has both keys, even if empty.
        parts = dict.fromkeys((CERTIFICATE, KEY), "") if type_ == TLS_TYPE else {}
        return Secret(metadata=metadata, type=type_, data=parts | dict(data))
    problem = None
    if before.type not in _TYPES:
        problem = f"Secret {name!r} is of type {before.type}; name another"
    elif before.immutable and any(before.data.get(key) != one for key, one in data.items()):
        problem = f"Secret {name!r} is immutable; name another, or omit key and certificate"
    if problem is not None:
        fault = Fault(path, problem)
        name = space.metadata.name
        raise Invalid(Code.FIELD_INVALID, f"{space.key}: {fault}", faults=[fault], name=name)
    return before.model_copy(update={"data": before.data | dict(data)})
