"""A listener. Start several: each message goes to all of them."""

import sys

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Listener(MessagingHandler):
    def on_start(self, event):
        event.container.create_receiver(f"{sys.argv[1]}/news")

    def on_link_opened(self, event):
        print("ready", flush=True)

    def on_message(self, event):
        print(event.message.body, flush=True)


Container(Listener()).run()
