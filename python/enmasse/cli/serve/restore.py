"""Restores a backup: verified before, counted after."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from enmasse.auth.token import ensure_token
from enmasse.base.clock import SystemClock, rfc3339
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.base.settings import KUBERNETES, Settings
from enmasse.cli.serve.launcher import open_store
from enmasse.native import Node
from enmasse.plan import Compiler
from enmasse.resources import AuthenticationService, Resource
from enmasse.store import Store
from enmasse.store.archive import JOURNAL, PRIVATE, Archive, Manifest
from enmasse.store.restored import RESTORED, UnknownPeriod, lost, noted

Document = dict[str, Any]

_BEGINNING = "0000-01-01T00:00:00Z"


async def restored(
    file: Path, settings: Settings, *, overwrite: bool, prune: bool = False
) -> Document:
    """Restore a backup and return the result: resources by kind, messages by address.

    `prune` removes Keycloak realms of spaces created since the backup.

    Raises: Invalid if the file is not a complete backup, or the store cannot restore one; Conflict
        if the folder is in use, or not empty without `overwrite`; Unavailable if the result differs
        from the backup.
    """
    if urlsplit(settings.store).scheme == KUBERNETES:
        raise Invalid(
            Code.OPERATION_UNFIT,
            "a backup cannot be restored into Kubernetes, which assigns its own"
            " uids; restore with --store sqlite",
        )
    archive = Archive(file)
    manifest = await asyncio.to_thread(archive.check)
    resources = await asyncio.to_thread(archive.resources, manifest)
    clock = SystemClock()
    now = rfc3339(clock.now())
    resources = _with_lost(resources, manifest.about.get("made") or _BEGINNING, now, prune=prune)
    with DataDir(settings.data, to_restore=True) as data:
        store = await open_store(settings, data, clock)
        try:
            await _check_free(store, data, overwrite)
            # Resources and messages are in two places: an interruption between them is reported at
            # the next start.
            write_private(data.restoring, "")
            await asyncio.to_thread(_unpack, archive, manifest, data)
            async with store.turn() as turn:
                await turn.replace_all(resources)
            data.served.unlink(missing_ok=True)
            data.restoring.unlink()
        finally:
            await store.close()
        return await _counted(settings, data, resources) | {
            "made": manifest.about.get("made"),
            "leftOut": manifest.about.get("leftOut", []),
        }


def lines(begin: str, about: Document) -> str:
    """Return the content of a backup, or of a restored folder, as text."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in about["resources"].items())
    counts = [one["stored"] for one in about["messages"].values()]
    summary_lines = [
        f"{begin} {sum(about['resources'].values())} resources ({kinds})",
        f"and {sum(counts)} messages of {len(counts)} addresses, as of {about['made']}",
    ]
    if about["leftOut"]:
        summary_lines.append(f"excluded without --secrets: {', '.join(about['leftOut'])}")
    return "\n".join(summary_lines)


def _with_lost(
    resources: Sequence[Resource], since: str, until: str, *, prune: bool
) -> list[Resource]:
    """Return the resources with the unknown period: spaces created since the backup may have
    realms.
    """
    others = [one for one in resources if one.key != RESTORED]
    keeps = any(isinstance(one, AuthenticationService) and one.keeps_realms for one in others)
    if prune or not keeps:
        return others
    before = next((one for one in resources if one.key == RESTORED), None)
    try:
        times = lost(before)
    except ValueError as error:
        raise Invalid(Code.OPERATION_UNFIT, f"the backup cannot be used: {error}") from None
    return [*others, noted(times, UnknownPeriod(since, until))]


async def _check_free(store: Store, data: DataDir, overwrite: bool) -> None:
    if store.leadership is not None and not await store.leadership.take():
        raise Conflict(
            Code.DATA_LOCKED,
            "a platform runs on the database; stop every process that uses it, then try again",
        )
    count, files = len(store.list()), any(data.journal.iterdir())
    if (count or files) and not overwrite and not data.restoring.exists():
        held = f"{count} resources" if count else "messages"
        raise Conflict(
            Code.ALREADY_EXISTS,
            f"{data.path} or its store already holds {held}; restore into an"
            " empty folder, or add --overwrite to lose them",
        )


def _unpack(archive: Archive, manifest: Manifest, data: DataDir) -> None:
    """Install the files; the old journal is deleted once the new one is in place."""
    new_journal = data.path / "journal.new"
    shutil.rmtree(new_journal, ignore_errors=True)
    new_journal.mkdir(mode=0o700)
    archive.unpack(manifest, JOURNAL, new_journal)
    shutil.rmtree(data.journal)
    new_journal.rename(data.journal)
    private = data.path / "private.new"
    shutil.rmtree(private, ignore_errors=True)
    private.mkdir(mode=0o700)
    archive.unpack(manifest, PRIVATE, private)
    for path in private.iterdir():
        to = data.path if path.name in (data.token.name, data.decoy.name) else data.tls
        path.replace(to / path.name)
    private.rmdir()


async def _counted(settings: Settings, data: DataDir, expected: Sequence[Resource]) -> Document:
    """Open the restored folder as a start does, and count its content.

    Raises: Unavailable if resources differ from the backup, or messages are damaged.
    """
    # What a start would refuse is found while the backup is at hand.
    store = await open_store(settings, data, SystemClock())
    try:
        found = list(store.list())
    finally:
        await store.close()
    if {one.key: _without_version(one) for one in found} != {
        one.key: _without_version(one) for one in expected
    }:
        raise Unavailable(
            Code.DATA_UNUSABLE, f"the resources in {data.path} are not those of the backup"
        )
    statistics = await asyncio.to_thread(_statistics, data, found)
    if damaged := sum(one.get("damaged", 0) for one in statistics):
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{damaged} messages in {data.journal} cannot be read"
        )
    return {
        "resources": dict(sorted(Counter(one.kind for one in found).items())),
        "messages": {
            one["uid"]: {"space": one["space"], "address": one["name"], "stored": stored}
            for one in statistics
            if (stored := one.get("stored", 0))
        },
    }


def _without_version(resource: Resource) -> Document:
    return resource.with_metadata(resource_version=None).document()


def _statistics(data: DataDir, resources: Sequence[Resource]) -> list[Document]:
    compiler = Compiler()
    for one in resources:
        compiler.put(one.key, one)
    compiler.refresh()
    node = Node(workers=1, decoy_secret=ensure_token(data.decoy), journal=data.journal)
    try:
        node.apply(compiler.plan(1))
        statistics: list[Document] = node.stats()["addresses"]
        return statistics
    finally:
        node.stop(1.0)
