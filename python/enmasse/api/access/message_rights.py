"""POST on `addressspaces/NAME/accessreviews`: whether a messaging user may do something."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.bodies import object_body
from enmasse.api.messages.documents import parsed
from enmasse.api.platform import Platform
from enmasse.base.errors import Code, Missing
from enmasse.plan.declared import home_of
from enmasse.plan.login import kind_of, rights_of
from enmasse.plan.rights import allowing
from enmasse.resources import API_VERSION, AddressSpace, Key, MessagingUser
from enmasse.resources.messaging_user import Operation
from enmasse.resources.model import Model


class ReviewRequest(Model):
    """The question."""

    user: str
    """The user name, as a client states it."""

    operation: Operation
    address: str


class MessagingUsers:
    """The declared users of address spaces."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def space_of(self, request: Request) -> AddressSpace:
        """Return the space of a request.

        Raises: Missing if it does not exist.
        """
        await self._platform.store.refresh()
        return self.space_named(request.path_params["namespace"], request.path_params["name"])

    def space_named(self, namespace: str, name: str) -> AddressSpace:
        """Return a space as this process knows it.

        Raises: Missing if it does not exist.
        """
        key = Key("AddressSpace", namespace, name)
        space = self._platform.store.get(key)
        if not isinstance(space, AddressSpace):
            raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
        return space

    def is_open(self, space: AddressSpace) -> bool:
        """Whether a space admits every client."""
        admission = self._platform.admission
        declared = admission.declared.current()
        users = declared.users(home_of(space))
        return kind_of(space, users, declared.catalogue, exposed=admission.exposed) == "none"

    def find(self, space: AddressSpace, name: str) -> MessagingUser | None:
        """Return the user of a space with a user name."""
        listed = self._platform.store.list("MessagingUser", space.metadata.namespace)
        return next(
            (
                one
                for one in listed
                if isinstance(one, MessagingUser)
                and one.space == space.metadata.name
                and one.spec.username == name
            ),
            None,
        )


class MessageRights:
    """Answers questions about messaging users, by their declarations."""

    def __init__(self, platform: Platform) -> None:
        self._users = MessagingUsers(platform)

    async def review(self, request: Request) -> Response:
        """Answer one question."""
        space = await self._users.space_of(request)
        asked: ReviewRequest = parsed(await object_body(request), ReviewRequest)
        head = {"kind": "AccessReview", "apiVersion": API_VERSION}
        return JSONResponse(head | asked.model_dump() | self._answer(space, asked))

    def _answer(self, space: AddressSpace, asked: ReviewRequest) -> dict[str, Any]:
        user = self._users.find(space, asked.user)
        declared = {"declared": user is not None}
        if self._users.is_open(space):
            return declared | {"allowed": True, "reason": "the address space is open to everyone"}
        if user is None:
            return declared | {
                "allowed": False,
                "reason": f"no MessagingUser of the space has the user name {asked.user!r}; an"
                " authentication service may know it and grant rights of its own",
            }
        pattern = allowing(rights_of(user), asked.operation, asked.address)
        if pattern is None:
            return declared | {
                "allowed": False,
                "reason": f"no authorization of {user.metadata.name} has {asked.operation} on"
                f" {asked.address!r}; add one",
            }
        reason = f"an authorization of {user.metadata.name} allows it"
        return declared | {"allowed": True, "reason": reason, "pattern": pattern}
