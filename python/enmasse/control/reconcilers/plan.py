"""Keeps the Plan that the engine serves equal to the declared resources.

A pass calls `declare` for every changed resource, `derive_passwords`, `compile`, then `serve`.
Compiling has no effect outside this process, so usage and certificates are decided between the last
two.
"""

from collections.abc import Iterable

from enmasse.base.errors import EnMasseError
from enmasse.control.address_space_schema import schemas
from enmasse.control.declared import StoreState
from enmasse.control.inventory import Change, Inventory
from enmasse.control.secret_passwords import SecretPasswords
from enmasse.control.work_queue import Batch, WorkQueue
from enmasse.engines import Engine, Proof
from enmasse.plan import Catalogue, Compiler, Outcome, Plan
from enmasse.resources import Key, MessagingUser
from enmasse.resources.address_space_plan import Allowance
from enmasse.store import Store


class PlanReconciler:
    """Compiles declared resources, and applies the Plan to an engine."""

    def __init__(
        self,
        store: Store,
        computed: Store,
        engine: Engine,
        declared: StoreState,
        compiler: Compiler,
        inventory: Inventory,
        queue: WorkQueue,
    ) -> None:
        """Publish the schemas of plans in `computed`; read passwords in Secrets of `store`.
        `compiler` follows `declared`.
        """
        self._computed = computed
        self._engine = engine
        self._declared = declared
        self._compiler = compiler
        self._inventory = inventory
        self._queue = queue
        self._passwords = SecretPasswords(store)
        self._published: Catalogue | None = None
        self._plan: Plan | None = None
        """The last Plan that the engine accepted."""

        self._is_outdated = False
        """The engine reported an event: its confirmation may be outdated."""

        self.proof: Proof | None = None
        """The last confirmation of the engine."""

        self.refusal: EnMasseError | None = None
        """Why the engine does not serve the compiled Plan; None if it does."""

    @property
    def waiting(self) -> set[Key]:
        """Users whose password another pass derives; they keep their status until then."""
        return self._passwords.waiting

    @property
    def is_served(self) -> bool:
        """Whether a retry by the engine is pointless."""
        return self.proof is None or self.proof.is_final

    def outcome(self, key: Key) -> Outcome:
        """Return the outcome of a resource in the compiled Plan."""
        return self._compiler.outcome(key)

    def applied_version(self, otherwise: int) -> int:
        """Return the version of the applied Plan, or `otherwise` before the first one."""
        return self._plan.version if self._plan else otherwise

    def allowance_of(self, space: Key) -> Allowance | None:
        """Return the allowance of a space as compiled last."""
        found = self._compiler.space(space)
        return self._compiler.catalogue.allowance(found) if found else None

    def request_confirmation(self) -> None:
        """Query the engine's confirmation again: it has reported an event."""
        self._is_outdated = True
        self._queue.wake()

    def declare(self, change: Change) -> None:
        """Take a changed user; its password may be in a Secret."""
        if change.key.kind == "MessagingUser":
            user = change.resource if isinstance(change.resource, MessagingUser) else None
            self._passwords.put(change.key, user)

    async def derive_passwords(self, batch: Batch) -> set[Key]:
        """Derive verifiers of users with changed passwords in Secrets; return these users."""
        users = await self._passwords.derive(batch.attached)
        self._declared.current()  # the compiler must know the users
        for user in users:
            self._compiler.set_verifiers(user)
        if self._passwords.waiting:
            self._queue.wake()
        return {user.key for user in users}

    def compile(self) -> set[Key]:
        """Compile the declared state as the store is now; return the resources whose outcome
        changed.
        """
        self._declared.current()
        return self._compiler.refresh()

    def exhaust(self, spaces: Iterable[Key]) -> None:
        """Withhold credit from the senders of spaces whose allowance is used up."""
        self._compiler.exhaust(spaces)

    async def publish(self) -> None:
        """Publish the schemas of plans if they changed."""
        catalogue = self._compiler.catalogue
        if catalogue is not self._published:
            await self._computed.put(schemas(catalogue))
            self._published = catalogue

    async def serve(self, batch: Batch, version: int) -> None:
        """Apply the Plan and confirm it, unless that has been done. Adds the resources whose
        confirmation changed; `refusal` has the error of the engine.

        The confirmation is queried first if it is doubted: an engine that was restarted serves
        nothing, although it accepted this Plan before.
        """
        wanted = self._compiler.plan(version)
        before = self.proof
        was_outdated, self._is_outdated = self._is_outdated or batch.is_full, False
        try:
            if self._plan is not None and was_outdated:
                self.proof = await self._engine.prove()
            if not self._serves(wanted) or not self.is_served:
                self.proof = await self._engine.apply(wanted)
                self._plan = wanted
        except EnMasseError as error:
            self._is_outdated = was_outdated
            self.refusal = error
            return
        self.refusal = None
        if self.proof:
            batch.keys |= self._inventory.keys_of(self.proof.differing(before))

    def _serves(self, wanted: Plan) -> bool:
        """Whether the engine confirmed a Plan with this content."""
        if self._plan is None or self.proof is None or self._plan.version != self.proof.version:
            return False
        return self._plan.equals_ignoring_version(wanted)
