"""Infra configs and authentication services: every field of the original round-trips."""

from typing import Any

import pytest

from enmasse.resources import parse
from enmasse.resources.infra_config import size_bytes

PODS = {
    "metadata": {"labels": {"team": "north"}},
    "spec": {
        "affinity": {"nodeAffinity": {"preferred": []}},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "priorityClassName": "high",
        "securityContext": {"runAsUser": 1},
        "containers": [
            {
                "name": "router",
                "resources": {"requests": {"cpu": "1"}},
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "livenessProbe": {
                    "initialDelaySeconds": 1,
                    "timeoutSeconds": 2,
                    "periodSeconds": 3,
                    "successThreshold": 4,
                    "failureThreshold": 5,
                },
                "readinessProbe": {"periodSeconds": 3},
            }
        ],
        "initContainers": [{"name": "broker-plugin", "env": []}],
    },
}
BROKER = {
    "resources": {"cpu": "1", "memory": "512Mi", "storage": "2Gi"},
    "podTemplate": PODS,
    "storageClassName": "fast",
    "updatePersistentVolumeClaim": True,
    "javaOpts": "-Xmx1g",
    "addressFullPolicy": "PAGE",
    "globalMaxSize": "64MB",
}
POLICY = {
    "maxConnections": 1,
    "maxConnectionsPerUser": 2,
    "maxConnectionsPerHost": 3,
    "maxSessionsPerConnection": 4,
    "maxSendersPerConnection": 5,
    "maxReceiversPerConnection": 6,
    "maxMessageSize": 7,
}
WHOLE: dict[str, dict[str, Any]] = {
    "StandardInfraConfig": {
        "version": "0.33",
        "networkPolicy": {"ingress": [{"from": []}], "egress": [{"to": []}]},
        "globalDLQ": True,
        "admin": {"resources": {"cpu": "1", "memory": "512Mi"}, "podTemplate": PODS},
        "broker": BROKER
        | {
            "connectorIdleTimeout": 16,
            "connectorWorkerThreads": 2,
            "minLargeMessageSize": -1,
            "treatRejectAsUnmodifiedDeliveryFailed": True,
            "useModifiedForTransientDeliveryErrors": True,
            "minAvailable": 1,
            "maxUnavailable": "50%",
        },
        "router": {
            "resources": {"cpu": "1", "memory": "512Mi"},
            "podTemplate": PODS,
            "minReplicas": 2,
            "linkCapacity": 250,
            "handshakeTimeout": 5,
            "idleTimeout": 6,
            "workerThreads": 7,
            "minAvailable": "1",
            "maxUnavailable": 2,
            "policy": POLICY,
        },
    },
    "BrokeredInfraConfig": {
        "version": "0.33",
        "networkPolicy": {"ingress": [], "egress": []},
        "admin": {"resources": {"memory": "512Mi"}, "podTemplate": PODS},
        "broker": BROKER,
    },
    "AuthenticationService": {
        "type": "standard",
        "realm": "one",
        "standard": {
            "credentialsSecret": {"name": "a", "namespace": "n"},
            "certificateSecret": {"name": "b"},
            "image": {"name": "keycloak", "pullPolicy": "Always"},
            "initImage": {"name": "init"},
            "jvmOptions": "-Xmx1g",
            "deploymentName": "d",
            "serviceName": "s",
            "routeName": "r",
            "replicas": 2,
            "resources": {
                "requests": {"cpu": "1", "memory": "2G"},
                "limits": {"cpu": "2", "memory": "2G"},
            },
            "securityContext": {"fsGroup": 1},
            "storage": {
                "type": "persistent-claim",
                "size": "5Gi",
                "class": "fast",
                "claimName": "c",
                "deleteClaim": True,
            },
            "datasource": {
                "type": "postgresql",
                "host": "db",
                "port": 5432,
                "database": "auth",
                "credentialsSecret": {"name": "db"},
            },
        },
    },
}


@pytest.mark.parametrize("kind", WHOLE)
def test_T_AS_13_every_field_of_the_original_round_trips(kind: str) -> None:
    document = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "default"},
        "spec": WHOLE[kind],
    }
    resource = parse(document)
    assert without_empty_values(resource.document()["spec"]) == without_empty_values(WHOLE[kind])
    assert parse(resource.document(), stored=True) == resource


def without_empty_values(value: Any) -> Any:
    """Remove empty lists and mappings."""
    if isinstance(value, dict):
        kept = {name: without_empty_values(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in ({}, [])}
    return [without_empty_values(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "size"),
    [("64", 64), ("64b", 64), ("64K", 65_536), ("64 MB", 64 << 20), ("1gb", 1 << 30)],
)
def test_a_size_is_in_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert size_bytes(text) == size
