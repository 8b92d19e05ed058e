"""Senders of the Azure SDKs: the AMQP library within azure-servicebus, and uamqp before it.

Both ask for the receiver settlement mode `second` unless told otherwise, and never settle.
"""

import json
import sys
from typing import Any


def pyamqp(options: dict[str, Any]) -> dict[str, Any]:
    """Send with the library that azure-servicebus has within; it returns on the outcome."""
    from azure.servicebus._pyamqp.authentication import SASLPlainAuth
    from azure.servicebus._pyamqp.client import SendClient
    from azure.servicebus._pyamqp.message import Message

    place = f"localhost:{options['port']}"
    properties = {"product": "azsdk-python-servicebus"} if options["introduced"] else None
    more = {"auth": SASLPlainAuth("anybody", "open"), "use_tls": False, "properties": properties}
    with SendClient(place, options["address"], **more) as client:
        for _ in range(options["count"]):
            client.send_message(Message(data=[b"body"]), timeout=options["timeout_s"])
    return {"sent": options["count"]}


def uamqp(options: dict[str, Any]) -> dict[str, Any]:
    """Send with uamqp; it says what became of each message."""
    import uamqp

    properties = {b"product": b"eventhub.python"} if options["introduced"] else None
    # It speaks nothing but TLS.
    auth = uamqp.authentication.SASLAnonymous(
        "localhost", port=options["port"], verify=options["ca"]
    )
    client = uamqp.SendClient(
        f"amqps://localhost:{options['port']}/{options['address']}",
        auth=auth,
        msg_timeout=options["timeout_s"] * 1000,
        properties=properties,
    )
    # It would name the address by all of the URL.
    client._remote_address = uamqp.address.Target(options["address"].encode())
    for _ in range(options["count"]):
        client.queue_message(uamqp.Message(b"body"))
    results = client.send_all_messages(close_on_done=True)
    return {"sent": sum(one == uamqp.constants.MessageState.SendComplete for one in results)}


if __name__ == "__main__":
    scenario = {"pyamqp": pyamqp, "uamqp": uamqp}[sys.argv[1]]
    json.dump(scenario(json.loads(sys.argv[2])), sys.stdout)
