"""The reference pages: their content, and that those in docs/ are current."""

from pathlib import Path

import pytest

from enmasse.resources import KINDS
from enmasse.resources.reference import pages
from enmasse.resources.schema import schema

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_in_docs_is_current(name: str) -> None:
    file = FOLDER / name
    assert file.is_file() and file.read_text() == PAGES[name], (
        f"docs/reference/{name} is out of date: run scripts/reference.py"
    )


def test_reference_folder_and_navigation_list_exactly_the_pages() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(PAGES)
    navigation = (ROOT / "zensical.toml").read_text()
    for name in PAGES:
        assert f'"reference/{name}"' in navigation


@pytest.mark.parametrize("kind", KINDS)
def test_reference_page_describes_every_spec_field(kind: str) -> None:
    page = PAGES[f"{kind.lower()}.md"]
    for name in schema(KINDS[kind])["properties"].get("spec", {}).get("properties", {}):
        assert f"`spec.{name}" in page


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("address", "| `spec.address` | string | required | all | The name that clients use. |"),
        (
            "address",
            "| `spec.messageTtl.maximum` | number, or text with a unit |  | queue, topic,"
            " deadletter | Maximum time to live, in milliseconds; also the default of messages"
            " without one. |",
        ),
        (
            "address",
            "| `spec.limits.onFull` | `block`, `reject`, `dropOldest` |  | queue, topic,"
            " subscription, deadletter | Behaviour at `messages` or `bytes`: block senders, reject"
            " messages, or drop the oldest message. |",
        ),
        ("address", "| cannot change | `spec.type`, `spec.address`, `spec.topic` |"),
        ("messaginguser", "| write-only | `spec.authentication.password` |"),
        ("secret", "| write-only | `stringData` |"),
        ("namespace", "| lives in | no namespace |"),
        ("addressplan", "| name | unique across all namespaces |"),
    ],
)
def test_reference_page_has_the_expected_rows(kind: str, row: str) -> None:
    assert row in PAGES[f"{kind}.md"].splitlines()
