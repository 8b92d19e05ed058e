"""A client that asks one question and prints the answer."""

import sys

from proton import Message
from proton.utils import BlockingConnection, SyncRequestResponse

connection = BlockingConnection(sys.argv[1])
client = SyncRequestResponse(connection, "questions")  # makes a reply address of its own
print(client.call(Message(body=sys.argv[2])).body)
connection.close()
