"""Readiness of plans, infra configs and authentication services: their references exist."""

from enmasse.control.status import Check, terminating, waiting_for_another

CHAIN: tuple[Check, ...] = (terminating, waiting_for_another)
