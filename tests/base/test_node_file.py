"""The identity of a node in its data folder."""

import socket
from pathlib import Path

import pytest

from enmasse.base import node_file
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Invalid, Unavailable
from enmasse.base.node_file import NodeRecord


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "node.json"
    assert node_file.read(file) is None
    for record in (
        NodeRecord("store", "rack-1", "uid", 0, "", "next"),
        NodeRecord("store", "rack-1", "uid", 7, "mark"),
    ):
        node_file.write(file, record)
        assert node_file.read(file) == record
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"store": "a", "name": "b"}', "\x00"])
def test_unreadable_record_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    file = tmp_path / "node.json"
    file.write_text(text)
    with pytest.raises(Unavailable, match="delete it: the folder then becomes a new node"):
        node_file.read(file)


@pytest.mark.parametrize(
    ("host", "name"), [("rack-1", "rack-1"), ("Rack_1.example.com", "rack-1"), ("7", "7")]
)
def test_default_name_is_the_first_part_of_the_host_name(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert node_file.default_name() == name


@pytest.mark.parametrize("host", ["", "-a", "ü", "a" * 64])
def test_host_name_that_is_no_node_name_asks_for_the_setting(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    with pytest.raises(Invalid, match="set --node-name to"):
        node_file.default_name()


def test_place_is_that_of_one_folder_only(tmp_path: Path) -> None:
    with DataDir(tmp_path / "a") as one, DataDir(tmp_path / "b") as other:
        place = node_file.place_of(one.path)
        assert place and place == node_file.place_of(one.path)
        assert place != node_file.place_of(other.path)
    assert node_file.place_of(tmp_path / "missing") == ""
