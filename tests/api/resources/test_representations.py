"""Tables, PartialObjectMetadata, and the Accept header."""

from datetime import UTC, datetime, timedelta

import pytest

from asgi_platform import ADDRESSES, SPACES, Served
from doubles import address, space
from enmasse.api.http.accept import WHOLE, Form, form_of
from enmasse.api.resources.representations import age
from enmasse.base.errors import Invalid
from enmasse.engines import AddressStatistics

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        (None, WHOLE),
        ("*/*", WHOLE),
        ("application/json", WHOLE),
        (f"{TABLE},application/json", Form("Table")),
        (f"application/json, {TABLE}", WHOLE),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", WHOLE),
        ("application/vnd.kubernetes.protobuf,application/json", WHOLE),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Form("PartialObjectMetadata"),
        ),
        ("application/json; as=Table; g=meta.k8s.io; v=v1beta1", Form("Table", "v1beta1")),
    ],
)
def test_accept_header_selects_the_first_supported_form(header: str | None, form: Form) -> None:
    assert form_of(header) == form


@pytest.mark.parametrize("header", ["text/html", "application/json;as=Chart;v=v1;g=meta.k8s.io"])
async def test_accept_header_without_a_supported_form_is_refused_with_406(
    served: Served, header: str
) -> None:
    with pytest.raises(Invalid):
        form_of(header)
    answer = await served.http.get(ADDRESSES, headers={"Accept": header})
    assert (answer.status_code, answer.json()["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=0), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=150), "2m30s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(minutes=100), "100m"),
        (timedelta(hours=3, minutes=5), "3h5m"),
        (timedelta(hours=30), "30h"),
        (timedelta(days=3, hours=4), "3d4h"),
        (timedelta(days=100), "100d"),
        (timedelta(days=3 * 365 + 10), "3y10d"),
        (timedelta(days=10 * 365), "10y"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=-60), "<invalid>"),
    ],
)
def test_age_is_shown_in_at_most_two_units(passed: timedelta, text: str) -> None:
    assert age((NOW - passed).isoformat(), NOW) == text


def test_age_of_an_invalid_timestamp_is_unknown() -> None:
    assert age("soon", NOW) == "<unknown>"


async def declared(served: Served) -> None:
    for path, resource in ((SPACES, space()), (ADDRESSES, address())):
        body = resource.document() | {"status": {}}
        assert (await served.http.post(path, json=body)).status_code == 201
    await served.settle()
    served.clock.advance(90)


async def test_a_table_has_the_columns_of_the_kind(served: Served) -> None:
    await declared(served)
    (made,) = (await served.http.get(ADDRESSES)).json()["items"]
    served.engine.statistics = [
        AddressStatistics(made["metadata"]["uid"], "s", "orders", 1, 2, stored=5)
    ]
    table = (await served.http.get(ADDRESSES, headers={"Accept": TABLE})).json()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert shown == [
        *("Name", "Address", "Type", "Plan", "Ready", "Phase", "Status"),
        *("Stored", "Senders", "Receivers", "Out/s", "Age"),
    ]
    (row,) = table["rows"]
    cells = dict(
        zip([one["name"] for one in table["columnDefinitions"]], row["cells"], strict=True)
    )
    assert cells["Name"] == "default.orders"
    assert cells["Ready"] is True
    assert (cells["Stored"], cells["Receivers"], cells["Out/s"]) == (5, 2, 0.0)
    assert cells["Age"] == "90s"
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert "spec" not in row["object"]


@pytest.mark.parametrize(("include", "kind"), [("Object", "Address"), ("None", None)])
async def test_include_object_selects_the_object_of_a_table_row(
    served: Served, include: str, kind: str | None
) -> None:
    await declared(served)
    answer = await served.http.get(
        ADDRESSES, params={"includeObject": include}, headers={"Accept": TABLE}
    )
    (row,) = answer.json()["rows"]
    assert (row["object"] and row["object"]["kind"]) == kind


async def test_table_of_one_resource_has_one_row(served: Served) -> None:
    await declared(served)
    path = f"{ADDRESSES}/default.orders"
    table = (await served.http.get(path, headers={"Accept": TABLE})).json()
    assert len(table["rows"]) == 1
    version = (await served.http.get(path)).json()["metadata"]["resourceVersion"]
    assert table["metadata"]["resourceVersion"] == version


async def test_partial_object_metadata_omits_spec_and_status(served: Served) -> None:
    await declared(served)
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    listed = (await served.http.get(ADDRESSES, headers=accept)).json()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}
