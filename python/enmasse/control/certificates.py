"""The certificates of address spaces: made, kept, shown by the engine, and made anew in time.

The authorities of a space are in a Secret of the infra namespace (`NAME.NAMESPACE.ca`) and go with
it. What they sign is kept nowhere: a process makes it when it begins to lead.
"""

import asyncio
import base64
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.control.shown import Answer, NodeIdentity, Question, Shown, answered
from enmasse.control.withheld import CERTIFICATE, secret_name
from enmasse.engines import Engine, Unshown
from enmasse.plan import names_of
from enmasse.resources import AddressSpace, Key, Resource, Secret
from enmasse.resources.core import NamedMetadata
from enmasse.resources.model import INFRA_NAMESPACE
from enmasse.store import Store

AUTHORITY_OF = "enmasse.io/authority-of"
"""Label: the uid of the space that an authority is of."""

AT_A_TIME = 64
"""Spaces whose certificates are made before those are shown: some milliseconds each."""


@dataclass(slots=True)
class _Held:
    """What a space shows at present."""

    basis: tuple[object, ...]
    """What that was decided by."""

    since: datetime
    until: datetime
    shown: Shown
    secrets: frozenset[Key]
    refused: Mapping[str, str]

    def is_timely(self, now: datetime) -> bool:
        """Whether it is to be shown at that time; the clock may have gone back."""
        return self.since <= now < self.until


class SpaceCertificates:
    """Has an engine show the certificates of spaces."""

    def __init__(self, store: Store, engine: Engine, clock: Clock) -> None:
        """Keep authorities in `store`. Nothing is shown until it is known what the node shows."""
        self._store = store
        self._engine = engine
        self._clock = clock
        self.node: NodeIdentity | None = None
        self._held: dict[str, _Held] = {}
        self._by_secret: defaultdict[Key, set[str]] = defaultdict(set)
        self._kept: dict[Key, str] = {}
        """Secrets of authorities that there are, and the uids of their spaces."""

        self._known = False
        self._failing: dict[str, str] = {}
        """Uids of spaces for which the last try failed, and why."""

        self._gone: set[str] = set()
        """Uids of spaces that have gone and are not forgotten yet."""

    def shown(self, uid: str | None) -> Shown | None:
        """Return what a space shows; None as long as nothing is decided."""
        held, failed = self._held.get(uid or ""), self._failing.get(uid or "")
        if failed is None:
            return held.shown if held else None
        message = f"its certificate cannot be kept or shown ({failed}); it is tried again"
        return replace(held.shown if held else Shown(""), problem=("NotShown", message))

    def due(self, secrets: Collection[Key]) -> set[str]:
        """Return the uids of spaces that are to be looked at again: it is time, or one of these
        Secrets, which have changed, counts."""
        now = self._clock.now()
        found = {uid for uid, held in self._held.items() if not held.is_timely(now)}
        return found.union(*(self._by_secret[key] for key in secrets if key in self._by_secret))

    async def follow(self, spaces: Iterable[AddressSpace], gone: Collection[str]) -> set[Key]:
        """Have spaces show what they are to show, and forget those that have gone, by uid. Returns
        the spaces that show something else than before.

        Raises: Unavailable if store or engine take nothing, which is said of the spaces that this
            concerns; then it is to be called again.
        """
        if self.node is None:
            return set()
        self._gone |= set(gone)
        if not self._known:
            self._find()
            self._known = True
        await self._forget()
        asked = [one for one in spaces if self._held_of(one) is None]
        try:
            await self._show_all(asked, self.node)
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
            # Each time leaves out at least one more that the tenant brought, until none is refused.
            while some:
                some = await self._show(some, node)

    def _held_of(self, space: AddressSpace) -> _Held | None:
        """Return what a space shows, if that is what it is to show."""
        held = self._held.get(space.metadata.uid or "")
        if held is None or not held.is_timely(self._clock.now()):
            return None
        return held if held.basis == _basis(self._question(space), self.node) else None

    def _secret(self, key: Key) -> Secret | None:
        found = self._store.get(key)
        return found if isinstance(found, Secret) else None

    def _question(self, space: AddressSpace) -> Question:
        kept = self._secret(authority_key(space))
        # That of a space of the same name, which has gone, is not this one's.
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
        return Question(
            space=space,
            kept=_texts(kept) if kept is not None and is_ours else None,
            bundles=bundles,
            refused=held.refused if held else {},
        )

    async def _show(self, spaces: list[AddressSpace], node: NodeIdentity) -> list[AddressSpace]:
        """Show what spaces are to show; return those of which the engine has refused something."""
        now = self._clock.now()
        questions = [self._question(one) for one in spaces]
        answers = await asyncio.to_thread(
            lambda: [answered(question, node, now) for question in questions]
        )
        await self._keep(zip(spaces, answers, strict=True))
        told = {
            space.metadata.uid or "": answer.certificates
            for space, answer in zip(spaces, answers, strict=True)
        }
        unshown = defaultdict(list)
        for one in await self._engine.show_certificates(told):
            unshown[one.uid].append(one)
        again = []
        for space, question, answer in zip(spaces, questions, answers, strict=True):
            refused = _refused(answer, unshown[space.metadata.uid or ""])
            brought = {texts.get(CERTIFICATE) for texts in question.bundles.values()}
            known = {**question.refused, **refused}
            known = {chain: reason for chain, reason in known.items() if chain in brought}
            own = [reason for chain, reason in refused.items() if chain not in brought]
            # What has changed meanwhile is not in it, so that it counts the next time.
            basis = _basis(replace(question, kept=answer.keep or question.kept), node)
            self._note(space, basis, answer, known, own)
            if known.keys() - question.refused.keys():
                again.append(space)
        return again

    def _note(
        self,
        space: AddressSpace,
        basis: tuple[object, ...],
        answer: Answer,
        refused: Mapping[str, str],
        own: list[str],
    ) -> None:
        """Note what a space shows, with what the engine has refused, and why its own, if so."""
        uid = space.metadata.uid or ""
        self._unnote(uid)
        self._failing.pop(uid, None)
        secrets = frozenset(_secrets_of(space))
        shown = answer.shown
        if own:
            message = f"the space's own cannot be shown ({own[0]}); the node's is in its place"
            shown = replace(shown, problem=("NotShown", message))
        self._held[uid] = _Held(basis, answer.since, answer.until, shown, secrets, refused)
        for key in secrets:
            self._by_secret[key].add(uid)

    def _unnote(self, uid: str) -> None:
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

    async def _keep(self, answers: Iterable[tuple[AddressSpace, Answer]]) -> None:
        """Keep authorities before anything that they have signed is shown."""
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

    async def _forget(self) -> None:
        shown = [uid for uid in self._gone if uid in self._held]
        if shown:
            await self._engine.show_certificates({uid: () for uid in shown})
        for uid in shown:
            self._unnote(uid)
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
    """Return the key of the Secret that has the authorities of a space."""
    return Key("Secret", INFRA_NAMESPACE, f"{names_of(space)[-1]}.ca")


def _basis(question: Question, node: NodeIdentity | None) -> tuple[object, ...]:
    """Return what decides what a space shows, but for the time and what the node refuses."""
    space = question.space
    asked = [(one.name, one.service, one.cert, one.hosts) for one in space.spec.endpoints]
    return names_of(space), asked, question.kept, question.bundles, node


def _secrets_of(space: AddressSpace) -> set[Key]:
    """Return the keys of the Secrets that count for what a space shows."""
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


def _refused(answer: Answer, unshown: Iterable[Unshown]) -> dict[str, str]:
    """Return the chains that the engine has refused, and why."""
    reasons = {name: one.reason for one in unshown for name in one.names}
    return {
        one.chain: reasons[name]
        for one in answer.certificates
        for name in one.names
        if name in reasons
    }
