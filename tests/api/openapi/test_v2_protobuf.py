"""OpenAPI v2 in protobuf, read back by the numbers of gnostic's `OpenAPIv2.proto`."""

import json
import struct
from typing import Any

import pytest

from enmasse.api.openapi.v2 import document
from enmasse.api.openapi.v2_protobuf import encoded

ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/{namespace}/addresses/{name}"


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """The values of a message by their number: bytes, whole numbers, doubles."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: Any
        if tag & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length
        elif tag & 7 == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        else:
            assert tag & 7 == 0
            value, at = varint(data, at)
        found.setdefault(tag >> 3, []).append(value)
    return found


def named(entries: list[bytes]) -> dict[str, bytes]:
    """Entries of a name and a value, as gnostic writes a mapping."""
    pairs = [fields(entry) for entry in entries]
    return {pair[1][0].decode(): pair[2][0] for pair in pairs}


def anything(entry: bytes) -> Any:
    return json.loads(fields(entry)[2][0])


@pytest.fixture(scope="module")
def root() -> dict[int, list[Any]]:
    return fields(encoded(document()))


def test_openapi_v2_header_has_version_title_and_security_scheme(
    root: dict[int, list[Any]],
) -> None:
    assert root[1] == [b"2.0"]
    assert fields(root[2][0])[1] == [b"EnMasse"]
    (scheme,) = named(fields(root[13][0])[1]).items()
    assert scheme[0] == "BearerToken"
    assert fields(fields(scheme[1])[2][0]) == {
        1: [b"apiKey"],
        2: [b"authorization"],
        3: [b"header"],
    }


def test_openapi_v2_schema_has_properties_bounds_and_kind(root: dict[int, list[Any]]) -> None:
    definitions = named(fields(root[9][0])[1])
    assert set(definitions) == set(document()["definitions"])
    address = fields(definitions["io.enmasse.v1beta1.Address"])
    extensions = named(address[31])
    kind = [{"group": "enmasse.io", "kind": "Address", "version": "v1beta1"}]
    assert anything(extensions["x-kubernetes-group-version-kind"]) == kind
    properties = named(fields(address[25][0])[1])
    assert fields(properties["metadata"])[1][0].endswith(b"ObjectMeta")
    spec = fields(properties["spec"])
    assert set(spec[19]) == {b"type", b"address"}
    members = named(fields(spec[25][0])[1])
    partitions = fields(members["partitions"])
    assert (partitions[9], partitions[7]) == ([1.0], [1024.0])
    assert fields(partitions[22][0])[1] == [b"integer"]
    full = fields(named(fields(fields(members["limits"])[25][0])[1])["onFull"])
    assert [anything(one) for one in full[20]] == ["block", "reject", "dropOldest"]
    forwarders = fields(members["forwarders"])
    assert 25 in fields(fields(forwarders[23][0])[1][0])


def test_openapi_v2_patch_names_its_kind_and_parameters(root: dict[int, list[Any]]) -> None:
    paths = named(fields(root[8][0])[2])
    assert set(paths) == set(document()["paths"])
    item = fields(paths[ADDRESSES])
    assert set(item) == {2, 3, 5, 8, 9}
    patch = fields(item[8][0])
    extensions = named(patch[13])
    kind = {"group": "enmasse.io", "kind": "Address", "version": "v1beta1"}
    assert anything(extensions["x-kubernetes-group-version-kind"]) == kind
    assert b"application/merge-patch+json" in patch[7]
    asked = [fields(fields(each)[1][0]) for each in patch[8]]
    queries = [fields(fields(one[2][0])[3][0]) for one in asked if 2 in one]
    assert {(one[2][0], one[4][0]) for one in queries} >= {(b"query", b"fieldValidation")}
    (body,) = [fields(one[1][0]) for one in asked if 1 in one]
    assert body[2] == [b"body"] and body[4] == [1]
    in_path = [fields(fields(fields(fields(each)[1][0])[2][0])[4][0]) for each in item[9]]
    assert {one[4][0] for one in in_path} == {b"namespace", b"name"}


def test_openapi_v2_keyword_without_a_field_number_is_an_error() -> None:
    with pytest.raises(KeyError):
        encoded({"swagger": "2.0", "nothing": 1})
