"""Creates, stores, activates and renews the certificates of address spaces.

The CAs of a space are in a Secret of the infra namespace (`NAME.NAMESPACE.ca`) and are deleted with
it. The certificates they sign are not stored: a process creates them when it becomes leader.
"""

import asyncio
import base64
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.control.certificate_choice import Choice, ChoiceInput, Decision, NodeIdentity, choose
from enmasse.control.inventory import Inventory
from enmasse.control.secret_extraction import CERTIFICATE, secret_name
from enmasse.control.work_queue import Batch, WorkQueue
from enmasse.engines import Engine, UnusableCertificate
from enmasse.plan import names_of
from enmasse.resources import AddressSpace, Key, Resource, Secret
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import INFRA_NAMESPACE
from enmasse.store import Store

AUTHORITY_OF = "enmasse.io/authority-of"
"""Label: uid of the space of a CA."""

AT_A_TIME = 64
"""Maximum spaces per batch of certificate creation: some milliseconds each."""


@dataclass(slots=True)
class _Held:
    """The active certificates of a space."""

    basis: tuple[object, ...]
    """The inputs of that decision."""

    since: datetime
    until: datetime
    shown: Choice
    secrets: frozenset[Key]
    refused: Mapping[str, str]

    def is_timely(self, now: datetime) -> bool:
        """Whether it is due at a time; the clock may have been set back."""
        return self.since <= now < self.until


class SpaceCertificates:
    """Activates certificates of spaces in an engine."""

    def __init__(
        self, store: Store, engine: Engine, clock: Clock, inventory: Inventory, queue: WorkQueue
    ) -> None:
        """Store CAs in `store`. Nothing is activated before the node's certificate is known."""
        self._store = store
        self._engine = engine
        self._clock = clock
        self._inventory = inventory
        self._queue = queue
        self._node: NodeIdentity | None = None
        self._held: dict[str, _Held] = {}
        self._by_secret: defaultdict[Key, set[str]] = defaultdict(set)
        self._kept: dict[Key, str] = {}
        """Existing Secrets of CAs, and the uids of their spaces."""

        self._known = False
        self._failing: dict[str, str] = {}
        """Uids of spaces whose last attempt failed, with the reason."""

        self._gone: set[str] = set()
        """Uids of deleted spaces whose certificates are still active."""

    def set_node(self, node: NodeIdentity) -> None:
        """Set the node's certificate; from the next pass on spaces get certificates that its CA
        vouches for.
        """
        if node != self._node:
            self._node = node
            self._queue.add(self._inventory.keys("AddressSpace"))
            self._queue.wake()

    async def reconcile(self, batch: Batch) -> EnMasseError | None:
        """Activate the certificates of affected spaces, and add spaces that changed to the batch.

        Returns the reason of a failure, which the spaces report. It does not prevent serving.
        """
        spaces = self._inventory.spaces(batch.keys, self.due(batch.attached))
        try:
            batch.keys |= await self.follow(spaces, batch.ended_spaces)
        except EnMasseError as error:
            batch.keys |= {one.key for one in spaces}
            return error
        return None

    def shown(self, uid: str | None) -> Choice | None:
        """Return the active certificates of a space; None if undecided."""
        held, failed = self._held.get(uid or ""), self._failing.get(uid or "")
        if failed is None:
            return held.shown if held else None
        message = f"its certificate cannot be stored or loaded ({failed}); this is retried"
        return replace(held.shown if held else Choice(""), problem=("NotShown", message))

    def due(self, secrets: Collection[Key]) -> set[str]:
        """Return the uids of spaces to process: those due, and those with changed Secrets."""
        now = self._clock.now()
        found = {uid for uid, held in self._held.items() if not held.is_timely(now)}
        return found.union(*(self._by_secret[key] for key in secrets if key in self._by_secret))

    async def follow(self, spaces: Iterable[AddressSpace], gone: Collection[str]) -> set[Key]:
        """Activate the certificates of spaces, and remove those of deleted spaces, by uid. Returns
        the spaces whose certificates changed.

        Raises: Unavailable if store or engine fail, which the affected spaces report; call again
            then.
        """
        if self._node is None:
            return set()
        self._gone |= set(gone)
        if not self._known:
            self._find()
            self._known = True
        await self._remove_deleted()
        asked = [one for one in spaces if self._held_of(one) is None]
        try:
            await self._show_all(asked, self._node)
        except (EnMasseError, OSError) as error:
            reason = str(error) or type(error).__name__
            left = (one.metadata.uid for one in asked if self._held_of(one) is None)
            self._failing |= {uid: reason for uid in left if uid is not None}
            if isinstance(error, EnMasseError):
                raise
            raise Unavailable(Code.NOT_AVAILABLE, f"certificates: {reason}") from error
        return {one.key for one in asked}

    async def _show_all(self, asked: Sequence[AddressSpace], node: NodeIdentity) -> None:
        for start in range(0, len(asked), AT_A_TIME):
            some = list(asked[start : start + AT_A_TIME])
            # Each iteration excludes at least one refused certificate of the tenant, so the loop
            # ends.
            while some:
                some = await self._show(some, node)

    def _held_of(self, space: AddressSpace) -> _Held | None:
        """Return the active certificates of a space if they are current."""
        held = self._held.get(space.metadata.uid or "")
        if held is None or not held.is_timely(self._clock.now()):
            return None
        return held if held.basis == _basis(self._question(space), self._node) else None

    def _secret(self, key: Key) -> Secret | None:
        found = self._store.get(key)
        return found if isinstance(found, Secret) else None

    def _question(self, space: AddressSpace) -> ChoiceInput:
        kept = self._secret(authority_key(space))
        # The Secret of a deleted space with the same name belongs to that space.
        uid = space.metadata.uid
        is_ours = kept is not None and kept.metadata.labels.get(AUTHORITY_OF, uid) == uid
        bundles = {
            key.name: _texts(secret)
            for key in _secrets_of(space)
            if key.namespace == space.metadata.namespace
            and key != authority_key(space)
            and (secret := self._secret(key)) is not None
        }
        held = self._held.get(space.metadata.uid or "")
        return ChoiceInput(
            space=space,
            kept=_texts(kept) if kept is not None and is_ours else None,
            bundles=bundles,
            refused=held.refused if held else {},
        )

    async def _show(self, spaces: list[AddressSpace], node: NodeIdentity) -> list[AddressSpace]:
        """Activate certificates; return the spaces with certificates that the engine refused."""
        now = self._clock.now()
        questions = [self._question(one) for one in spaces]
        answers = await asyncio.to_thread(
            lambda: [choose(question, node, now) for question in questions]
        )
        await self._store_authorities(zip(spaces, answers, strict=True))
        by_space = {
            space.metadata.uid or "": answer.certificates
            for space, answer in zip(spaces, answers, strict=True)
        }
        unusable = defaultdict(list)
        for one in await self._engine.show_certificates(by_space):
            unusable[one.uid].append(one)
        again = []
        for space, question, answer in zip(spaces, questions, answers, strict=True):
            refused = _refused(answer, unusable[space.metadata.uid or ""])
            brought = {texts.get(CERTIFICATE) for texts in question.bundles.values()}
            known = {**question.refused, **refused}
            known = {chain: reason for chain, reason in known.items() if chain in brought}
            own = [reason for chain, reason in refused.items() if chain not in brought]
            # Concurrent changes are not included, so they count at the next call.
            basis = _basis(replace(question, kept=answer.keep or question.kept), node)
            self._record(space, basis, answer, known, own)
            if known.keys() - question.refused.keys():
                again.append(space)
        return again

    def _record(
        self,
        space: AddressSpace,
        basis: tuple[object, ...],
        answer: Decision,
        refused: Mapping[str, str],
        own: list[str],
    ) -> None:
        """Record the active certificates of a space, with refusals of the engine and the reason of
        a fallback.
        """
        uid = space.metadata.uid or ""
        self._discard_record(uid)
        self._failing.pop(uid, None)
        secrets = frozenset(_secrets_of(space))
        shown = answer.shown
        if own:
            message = (
                f"the certificate of the space cannot be used ({own[0]});"
                " the node's certificate is used instead"
            )
            shown = replace(shown, problem=("NotShown", message))
        self._held[uid] = _Held(basis, answer.since, answer.until, shown, secrets, refused)
        for key in secrets:
            self._by_secret[key].add(uid)

    def _discard_record(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        for key in held.secrets if held else ():
            self._by_secret[key].discard(uid)
            if not self._by_secret[key]:
                del self._by_secret[key]

    def _find(self) -> None:
        for one in self._store.list("Secret", namespace=INFRA_NAMESPACE):
            if (uid := one.metadata.labels.get(AUTHORITY_OF)) is not None:
                self._kept[one.key] = uid
        there = {one.metadata.uid for one in self._store.list("AddressSpace")}
        self._gone |= {uid for uid in self._kept.values() if uid not in there}

    async def _store_authorities(self, answers: Iterable[tuple[AddressSpace, Decision]]) -> None:
        """Store CAs before any certificate they signed becomes active."""
        new: list[Resource] = [
            Secret(
                metadata=NamedMetadata(
                    name=authority_key(space).name,
                    namespace=INFRA_NAMESPACE,
                    labels={AUTHORITY_OF: space.metadata.uid or ""},
                ),
                data={
                    name: base64.b64encode(text.encode()).decode()
                    for name, text in answer.keep.items()
                },
            )
            for space, answer in answers
            if answer.keep is not None
        ]
        if not new:
            return
        async with self._store.turn() as turn:
            await turn.put(new)
        for one in new:
            self._kept[one.key] = one.metadata.labels[AUTHORITY_OF]

    async def _remove_deleted(self) -> None:
        shown = [uid for uid in self._gone if uid in self._held]
        if shown:
            await self._engine.show_certificates({uid: () for uid in shown})
        for uid in shown:
            self._discard_record(uid)
        for uid in self._gone:
            self._failing.pop(uid, None)
        keys = [key for key, uid in self._kept.items() if uid in self._gone]
        if keys:
            async with self._store.turn() as turn:
                there = [key for key in sorted(keys) if self._is_kept(key)]
                if there:
                    await turn.delete(there)
        for key in keys:
            del self._kept[key]
        self._gone.clear()

    def _is_kept(self, key: Key) -> bool:
        there = self._secret(key)
        return there is not None and there.metadata.labels.get(AUTHORITY_OF) == self._kept[key]


def authority_key(space: AddressSpace) -> Key:
    """Return the key of the Secret with the CAs of a space."""
    return Key("Secret", INFRA_NAMESPACE, f"{names_of(space)[-1]}.ca")


def _basis(question: ChoiceInput, node: NodeIdentity | None) -> tuple[object, ...]:
    """Return the inputs of the decision, except the time and refusals of the node."""
    space = question.space
    asked = [(one.name, one.service, one.cert, one.hosts) for one in space.spec.endpoints]
    return names_of(space), asked, question.kept, question.bundles, node


def _secrets_of(space: AddressSpace) -> set[Key]:
    """Return the keys of the Secrets that the decision depends on."""
    namespace = space.metadata.namespace
    named = {
        Key("Secret", namespace, secret_name(space, one))
        for one in space.spec.endpoints
        if one.cert is not None and one.cert.provider == "certBundle"
    }
    return named | {authority_key(space)}


def _texts(secret: Secret) -> dict[str, str]:
    found = {name: secret.text(name) for name in secret.data}
    return {name: text for name, text in found.items() if text is not None}


def _refused(answer: Decision, unusable: Iterable[UnusableCertificate]) -> dict[str, str]:
    """Return the chains that the engine refused, with reasons."""
    reasons = {name: one.reason for one in unusable for name in one.names}
    return {
        one.chain: reasons[name]
        for one in answer.certificates
        for name in one.names
        if name in reasons
    }
