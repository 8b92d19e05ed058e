"""A worker. Start several: each job goes to one of them."""

import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Worker(MessagingHandler):
    def on_start(self, event):
        event.container.create_receiver(f"{sys.argv[1]}/jobs")

    def on_link_opened(self, event):
        print("ready", flush=True)

    def on_message(self, event):  # accepted on return: only then does the producer hear of it
        print(event.message.body, flush=True)


Container(Worker(prefetch=1)).run()
