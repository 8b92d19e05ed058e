"""A process becomes a node of its store, or is refused, as its folder and the store agree."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from doubles import TestClock
from enmasse.base import node_file
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.control.node_start import start_node
from enmasse.store import MemoryStore
from enmasse.store.nodes import SILENT_S, Heartbeat, Identity, Registered

pytestmark = pytest.mark.anyio


class Elsewhere(MemoryStore):
    """A store whose nodes are as silent as the clock says, as in a database."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.beaten: dict[str, float] = {}
        self.on_list = lambda: None
        local, store = self._nodes, self

        class Nodes(type(local)):  # type: ignore[misc]
            async def list(self) -> list[Registered]:
                store.on_list()
                known = await super().list()
                return [self._aged(one) for one in known]

            def _aged(self, one: Registered) -> Registered:
                if one.is_stopped:
                    return one
                age_s = store.clock.monotonic() - store.beaten.get(one.identity.name, 0.0)
                return Registered(one.identity, one.place, one.beat, age_s)

        self._nodes = Nodes()


async def start(store: MemoryStore, folder: Path, name: str | None = None) -> Identity:
    with DataDir(folder) as data:
        return await start_node(data, name, store, store._clock)


async def test_each_start_has_the_uid_of_the_folder_and_the_next_number(tmp_path: Path) -> None:
    store = MemoryStore(TestClock())
    first = await start(store, tmp_path, "rack-1")
    again = await start(store, tmp_path)
    assert (first.name, first.start) == ("rack-1", 1)
    assert (again.name, again.uid, again.start) == ("rack-1", first.uid, 2)
    assert again.mark != first.mark
    (known,) = await store.nodes.list()
    assert known.identity == again


async def test_crash_between_store_and_folder_does_not_lock_the_folder_out(tmp_path: Path) -> None:
    store = MemoryStore(TestClock())
    await start(store, tmp_path, "a")
    written = node_file.read(tmp_path / "node.json")
    assert written is not None
    # The process announced a start; the store took it, and the process died.
    (known,) = await store.nodes.list()
    lost = known.identity._replace(start=2, mark="lost")
    assert await store.nodes.claim(known, lost, known.place)
    node_file.write(tmp_path / "node.json", written._replace(next_mark="lost"))
    # It dies again before the store has the next one.
    claimed = store.nodes.claim

    async def dies(*_: object) -> bool:
        raise KeyboardInterrupt

    store.nodes.claim = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        await start(store, tmp_path)
    store.nodes.claim = claimed  # type: ignore[method-assign]
    assert (await start(store, tmp_path)).start == 3


async def test_interrupted_take_over_of_a_name_does_not_lock_the_folder_out(
    tmp_path: Path,
) -> None:
    store = MemoryStore(TestClock())
    first = await start(store, tmp_path / "lost", "a")
    await store.nodes.stop(first)
    claimed = store.nodes.claim

    async def away(*_: object) -> bool:
        raise Unavailable(Code.STORE_UNUSABLE, "away")

    store.nodes.claim = away  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await start(store, tmp_path / "new", "a")
    lost = 1

    async def lost_race(*arguments: Any) -> bool:
        nonlocal lost
        lost -= 1
        return lost < 0 and await claimed(*arguments)

    # The next start loses against a change of the store, and tries again.
    store.nodes.claim = lost_race  # type: ignore[method-assign]
    again = await start(store, tmp_path / "new", "a")
    assert again.uid != first.uid and again.start == 1


async def test_copy_of_a_folder_is_refused_once_the_original_was_started(tmp_path: Path) -> None:
    store = MemoryStore(TestClock())
    await start(store, tmp_path / "original", "a")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    await start(store, tmp_path / "original")
    before = (tmp_path / "copy" / "node.json").read_text()
    with pytest.raises(Conflict, match="the folder was copied or restored") as refused:
        await start(store, tmp_path / "copy")
    assert refused.value.code == Code.NODE_TAKEN
    assert (tmp_path / "copy" / "node.json").read_text() == before
    # The remedy of the message.
    (tmp_path / "copy" / "node.json").unlink()
    assert (await start(store, tmp_path / "copy", "b")).start == 1


async def test_copy_beside_the_running_original_is_refused_by_its_heartbeats(
    tmp_path: Path,
) -> None:
    clock = TestClock()
    store = Elsewhere(clock)
    identity = await start(store, tmp_path / "original", "a")
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    beats = 0

    def original_runs() -> None:
        nonlocal beats
        beats += 1
        known = store._nodes._nodes["a"]  # type: ignore[attr-defined]
        store.beaten["a"] = clock.monotonic()
        store._nodes._nodes["a"] = Registered(  # type: ignore[attr-defined]
            identity, known.place, str(beats // 3), 0.0, Heartbeat()
        )

    store.on_list = original_runs
    with pytest.raises(Conflict, match="another process runs as node 'a'"):
        await start(store, tmp_path / "copy")
    assert clock.monotonic() < SILENT_S


async def test_moved_folder_starts_once_its_former_process_is_silent(tmp_path: Path) -> None:
    clock = TestClock()
    store = Elsewhere(clock)
    first = await start(store, tmp_path / "here", "a")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    again = await start(store, tmp_path / "there")
    assert (again.uid, again.start) == (first.uid, 2)
    assert SILENT_S <= clock.monotonic() < SILENT_S + 2


async def test_same_folder_starts_at_once_after_a_kill(tmp_path: Path) -> None:
    clock = TestClock()
    store = Elsewhere(clock)
    await start(store, tmp_path, "a")
    assert (await start(store, tmp_path)).start == 2
    assert clock.monotonic() == 0.0


async def test_new_folder_waits_for_the_name_of_a_process_that_was_killed(tmp_path: Path) -> None:
    clock = TestClock()
    store = Elsewhere(clock)
    first = await start(store, tmp_path / "lost", "a")
    again = await start(store, tmp_path / "new", "a")
    assert again.uid != first.uid and again.start == 1
    assert clock.monotonic() >= SILENT_S
    with pytest.raises(Conflict, match="has another data folder"):
        await start(store, tmp_path / "lost")


async def test_folder_of_another_store_becomes_a_new_node(tmp_path: Path) -> None:
    one, other = MemoryStore(TestClock()), MemoryStore(TestClock())
    first = await start(one, tmp_path, "a")
    again = await start(other, tmp_path)
    assert again.uid != first.uid
    document = json.loads((tmp_path / "node.json").read_text())
    assert document == {
        "store": other.identity,
        "name": again.name,
        "uid": again.uid,
        "start": 1,
        "mark": again.mark,
        "nextMark": None,
    }
