"""Certificates of address spaces as clients meet them: a real node and real TLS, with the control
plane's clock in the test's hand. Clients go by the true time, so the clock begins in the past."""

import base64
import random
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from doubles import document
from enmasse.auth.certificates import ensure_certificates
from enmasse.base.clock import SystemClock
from enmasse.client import connect
from enmasse.control.certificate_choice import NodeIdentity
from enmasse.engines.native import NativeEngine
from enmasse.messaging import Message
from enmasse.native import Node
from enmasse.plan import names_of
from enmasse.resources import AddressSpace, Key, parse
from stepped_manager import SHOP, Platform, endpoint, route, space


class Served(Platform):
    """A platform with a node that listens with TLS, whose clock is `days_ago` behind."""

    def __init__(self, folder: Path, days_ago: float) -> None:
        tls = ensure_certificates(folder, ["localhost"], SystemClock())
        key = (folder / "ca.key").read_text()
        identity = NodeIdentity(tls.certificate.read_text(), tls.ca.read_text(), key)
        self.node = Node(workers=1)
        files = {"certificate": str(tls.certificate), "key": str(tls.key), "clientCa": str(tls.ca)}
        self.ports = {
            kind: self.node.listen(kind, "127.0.0.1", 0, files) for kind in ("amqps", "wss")
        }
        moment = datetime.now(UTC) - timedelta(days=days_ago)
        super().__init__(NativeEngine(self.node), moment, identity)

    def trusted(self, key: Key = SHOP) -> str:
        """Whom clients of a space are told to trust."""
        return base64.b64decode(self.space(key).status.ca_cert or "").decode()

    def handshake(self, name: str, trusted: str | None, kind: str = "amqps") -> x509.Certificate:
        """What a client sees that asks for a name and trusts these authorities; None: anyone.

        Raises: ssl.SSLCertVerificationError if it does not believe it.
        """
        context = ssl.create_default_context(cadata=trusted)
        if trusted is None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        else:
            context.verify_flags |= ssl.VERIFY_X509_STRICT
        with (
            socket.create_connection(("127.0.0.1", self.ports[kind]), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname=name) as secured,
        ):
            found = secured.getpeercert(binary_form=True)
        assert found is not None
        return x509.load_der_x509_certificate(found)

    def refuses(self, name: str, trusted: str) -> bool:
        """Whether a client that trusts these authorities does not believe the server."""
        try:
            self.handshake(name, trusted)
        except ssl.SSLCertVerificationError:
            return True
        return False


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path, 3400)
    yield served
    served.node.stop(0)


async def test_T_AU_5_renewal_and_succession_are_noticed_by_new_handshakes_alone(
    served: Served, tmp_path: Path
) -> None:
    """Ten years in a moment, and one connection that lives through all of them that clients see."""
    orders = document("Address", "shop.orders", {"address": "orders", "type": "anycast"})
    await served.admission.apply([parse(space()), parse(orders)])
    await served.settle()
    old = served.trusted()
    # 40 days ago in true time: a successor is told of, the old one signs.
    await served.pass_days(3360)
    both = served.trusted()
    assert both.startswith(old) and both != old
    first = served.handshake("shop.default", old)
    assert served.handshake("shop.default", both, "wss") == first
    authorities = tmp_path / "trusted.crt"
    authorities.write_text(both)
    url = f"amqps://127.0.0.1:{served.ports['amqps']}"
    async with (
        connect(url, ca=str(authorities), server_name="shop.default") as session,
        session.receiver("orders") as receiver,
        session.sender("orders") as sender,
    ):
        # 9 days ago: the successor has begun to sign.
        await served.pass_days(31)
        second = served.handshake("shop.default", both)
        assert second != first and served.refuses("shop.default", old)
        assert served.trusted() != both
        assert served.handshake("shop.default", served.trusted()) == second
        # Who trusts the node went on all the time.
        assert served.handshake("shop.default", served.identity.authority) == second
        sent = await sender.post(Message.of("as ever"))
        delivery = await anext(aiter(receiver))
        delivery.settle()
        await sent
        assert delivery.message.text == "as ever"


async def test_a_certificate_is_made_anew_while_it_still_holds(tmp_path: Path) -> None:
    served = Served(tmp_path, 266)
    await served.apply(space())
    first = served.handshake("shop.default", served.trusted())
    await served.pass_days(100)
    assert served.handshake("shop.default", served.trusted()) == first
    await served.pass_days(166)
    assert served.handshake("shop.default", served.trusted()) != first
    served.node.stop(0)


async def test_two_spaces_never_show_each_others_certificates(served: Served) -> None:
    """Spaces of the same short name, made and deleted, with a host that goes from one to another:
    what a name shows is signed by the authority of the space that it leads to, or it is the
    node's."""
    drawn = random.Random(7)
    await served.pass_days(3395)
    keys = [Key("AddressSpace", namespace, "shop") for namespace in ("north", "south", "west")]
    node = served.handshake("localhost", None)
    for _ in range(12):
        key = drawn.choice(keys)
        holder = drawn.choice(keys)
        if served.store.get(key) is not None:
            await served.admission.delete(key)
        host = {"endpoints": [endpoint(expose=route())]} if key == holder else {}
        if drawn.random() < 0.8 and not (host and _has_host(served, keys)):
            made = space(**host)
            made["metadata"]["namespace"] = key.namespace
            await served.admission.apply([parse(made)])
        await served.settle()
        spaces = [one for one in served.store.list("AddressSpace")]
        for name in ["shop", "shop.example.com", *(f"shop.{one.namespace}" for one in keys)]:
            claiming = [
                one for one in spaces if isinstance(one, AddressSpace) and name in names_of(one)
            ]
            # The first has the name, by the time of creation and then by the uid.
            claiming.sort(key=lambda one: (one.metadata.creation_timestamp, one.metadata.uid))
            leads_to = claiming[:1]
            found = served.handshake(name, None)
            if not leads_to:
                assert found == node, name
                continue
            assert served.handshake(name, served.trusted(leads_to[0].key)) == found
            for other in spaces:
                if other is not leads_to[0]:
                    assert served.refuses(name, served.trusted(other.key))


def _has_host(served: Served, keys: list[Key]) -> bool:
    there = [served.store.get(key) for key in keys]
    return any(isinstance(one, AddressSpace) and one.spec.hosts for one in there)
