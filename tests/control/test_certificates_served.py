"""Certificates of address spaces as clients see them: a real node and real TLS, with a test clock
in the control plane. Clients use the true time, so the test clock starts in the past."""

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
    """A platform with a node that listens with TLS, and a clock that is `days_ago` behind."""

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
        """The authorities that a space publishes to its clients."""
        return base64.b64decode(self.space(key).status.ca_cert or "").decode()

    def handshake(self, name: str, trusted: str | None, kind: str = "amqps") -> x509.Certificate:
        """The certificate that a client gets for a name; `trusted` None: it verifies nothing.

        Raises: ssl.SSLCertVerificationError if the client does not trust the certificate.
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
        """Whether a client that trusts these authorities rejects the server."""
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


async def test_T_AU_5_renewal_and_succession_affect_new_handshakes_only(
    served: Served, tmp_path: Path
) -> None:
    """One connection survives a renewal and a succession while the test clock advances."""
    orders = document("Address", "shop.orders", {"address": "orders", "type": "anycast"})
    await served.admission.apply([parse(space()), parse(orders)])
    await served.settle()
    old = served.trusted()
    # 40 days before the true time, the successor is published and the old authority signs.
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
        # 9 days before the true time, the successor signs.
        await served.pass_days(31)
        second = served.handshake("shop.default", both)
        assert second != first and served.refuses("shop.default", old)
        assert served.trusted() != both
        assert served.handshake("shop.default", served.trusted()) == second
        # A client that trusts the node trusts every certificate.
        assert served.handshake("shop.default", served.identity.authority) == second
        sent = await sender.post(Message.of("as ever"))
        delivery = await anext(aiter(receiver))
        delivery.settle()
        await sent
        assert delivery.message.text == "as ever"


async def test_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    served = Served(tmp_path, 266)
    await served.apply(space())
    first = served.handshake("shop.default", served.trusted())
    await served.pass_days(100)
    assert served.handshake("shop.default", served.trusted()) == first
    await served.pass_days(166)
    assert served.handshake("shop.default", served.trusted()) != first
    served.node.stop(0)


async def test_spaces_of_one_short_name_never_present_each_others_certificates(
    served: Served,
) -> None:
    """Spaces of one short name are created and deleted, and a host moves between them. The
    certificate for a name is signed by the authority of the space with that name, or it is that of
    the node."""
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
            # The oldest space has the name; the uid breaks a tie.
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
