"""Metrics of the process, its data folder and its certificates, for `/metrics`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from enmasse.base.data_dir import DataDir


def register(registry: CollectorRegistry, data: DataDir | None) -> None:
    """Add the metrics of the process (`process_*`, named as by Prometheus) and of its data folder,
    if it has one.
    """
    ProcessCollector(registry=registry)
    if data is not None:
        registry.register(_Folder(data))


class _Folder(Collector):
    """The metrics of a data folder at one moment."""

    def __init__(self, data: DataDir) -> None:
        self._data = data

    def collect(self) -> Iterator[Metric]:
        """Yield every family that can be read; others are omitted."""
        try:
            disk = shutil.disk_usage(self._data.path)
        except OSError:
            pass
        else:
            for name, text, value in (
                ("free", "Free bytes in the file system of the data folder.", disk.free),
                ("size", "Size of the file system of the data folder in bytes.", disk.total),
            ):
                yield GaugeMetricFamily(f"enmasse_disk_{name}_bytes", text, value=value)
        expiry = GaugeMetricFamily(
            "enmasse_certificate_expiry_timestamp_seconds",
            "Expiry of a certificate of the data folder, in seconds since 1970.",
            labels=["certificate"],
        )
        for name in ("tls", "ca"):
            if (moment := _expiry(self._data.tls / f"{name}.crt")) is not None:
                expiry.add_metric([name], moment)
        yield expiry


def _expiry(file: Path) -> float | None:
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError):
        return None
    return certificate.not_valid_after_utc.timestamp()
