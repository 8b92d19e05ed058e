"""Reports of a running pipeline to the platform."""

import threading

from enmasse.cli.resources.pipeline_reports import repeat


def test_a_failed_report_is_tried_again() -> None:
    stop, sent = threading.Event(), []

    def send() -> None:
        sent.append(len(sent))
        if len(sent) == 3:
            stop.set()
        raise OSError("no platform")

    repeat(send, stop, interval_s=0.001)
    assert sent == [0, 1, 2]
