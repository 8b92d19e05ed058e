"""The default address space, of connections that name none, and changes to it."""

from typing import Any

import pytest

from doubles import space
from enmasse.base.errors import EnMasseError, Invalid
from enmasse.plan import PLATFORM, compile, default_space
from enmasse.resources import Key, Namespace, parse
from enmasse.resources.conditions import find
from enmasse.resources.model import DEFAULT_SPACE_ANNOTATION
from managed_store import Controlled, controlled

HOSTS = ("mq.example.com", "127.0.0.1")


def document(name: str, namespace: str = "default") -> dict[str, Any]:
    return space(name, namespace=namespace).document()


def platform_naming(name: str | None) -> Namespace:
    annotations = {} if name is None else {DEFAULT_SPACE_ANNOTATION: name}
    found = parse(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": PLATFORM.name, "annotations": annotations},
        }
    )
    assert isinstance(found, Namespace)
    return found


def noted(platform: Controlled) -> str | None:
    return default_space(platform.store.get(PLATFORM))


async def ship_defaults(platform: Controlled) -> None:
    await platform.admission.apply([platform_naming(None)])


@pytest.mark.parametrize(
    ("annotation", "spaces", "expected"),
    [
        (None, [("default", "default"), ("shop", "north")], "default.default"),
        (None, [("shop", "north")], None),
        (None, [], None),
        ("shop.north", [("default", "default"), ("shop", "north")], "shop.north"),
        ("gone.north", [("default", "default")], "gone.north"),
        ("", [("default", "default")], ""),
    ],
)
def test_the_plan_names_the_default_space(
    annotation: str | None, spaces: list[tuple[str, str]], expected: str | None
) -> None:
    declared = [space(name, namespace=namespace, uid=name) for name, namespace in spaces]
    plan = compile([platform_naming(annotation), *declared], 1).plan
    assert plan.default_space == expected


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([["default"], ["shop"]], "default.default"),
        ([["shop", "default"]], "default.default"),
        ([["shop"], ["default"]], "shop.default"),
        ([["shop", "lab"], ["third"]], None),
        ([["shop", "lab"], ["default"]], "default.default"),
    ],
)
async def test_first_declared_space_stays_the_default(
    requests: list[list[str]], expected: str | None
) -> None:
    async with controlled() as platform:
        await ship_defaults(platform)
        for names in requests:
            await platform.apply(*(document(name) for name in names))
        assert noted(platform) == expected
        assert platform.engine.applied[-1].default_space == expected


async def test_deleted_default_space_is_not_replaced() -> None:
    async with controlled() as platform:
        await ship_defaults(platform)
        await platform.apply(document("default"))
        await platform.apply(document("shop"))
        await platform.admission.delete(Key("AddressSpace", "default", "default"))
        await platform.settle()
        plan = platform.engine.applied[-1]
        assert [one.names[-1] for one in plan.spaces] == ["shop.default"]
        assert plan.default_space == "default.default"


async def test_older_platform_records_its_default_space_at_start() -> None:
    async with controlled() as platform:
        await platform.apply(document("shop"))
        assert noted(platform) is None
        await ship_defaults(platform)
        await platform.admission.create_defaults([])
        assert noted(platform) == "shop.default"


async def test_changed_default_space_is_applied_and_a_missing_one_rejected() -> None:
    async with controlled() as platform:
        await ship_defaults(platform)
        await platform.apply(document("default"), document("shop"))
        await platform.apply(platform_naming("shop.default").document())
        assert platform.engine.applied[-1].default_space == "shop.default"
        with pytest.raises(Invalid, match="address space 'sohp.default' not found"):
            await platform.apply(platform_naming("sohp.default").document())
        await platform.apply(platform_naming("").document())
        assert platform.engine.applied[-1].default_space == ""


async def test_dry_run_records_no_default_space() -> None:
    async with controlled() as platform:
        await ship_defaults(platform)
        await platform.admission.create(space(), dry_run=True)
        assert noted(platform) is None
        with pytest.raises(EnMasseError):
            await platform.admission.apply([platform_naming("default.default")])


async def test_space_without_its_short_name_is_ready_and_reports_name_taken() -> None:
    async with controlled() as platform:
        platform.clock.advance(1)
        await platform.apply(document("shop", "north"))
        platform.clock.advance(1)
        await platform.apply(document("shop", "south"))
        told = platform.condition_of("AddressSpace", "shop", "NamesHeld", "south")
        assert (told.status, told.reason) == ("False", "NameTaken")
        assert platform.get("AddressSpace", "shop", "south").status.is_ready
        first = platform.get("AddressSpace", "shop", "north")
        assert find(first.status.conditions, "NamesHeld") is None
        await platform.admission.delete(first.key)
        await platform.settle()
        second = platform.get("AddressSpace", "shop", "south")
        assert find(second.status.conditions, "NamesHeld") is None
