"""kubectl 1.24, which needs OpenAPI v2 for apply, diff and explain."""

from pathlib import Path

import pytest

from kube.go_programs import BUILD_TIMEOUT_S, Kubectl, build
from platform_process import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]

QUEUE = """
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.older}
spec: {type: queue, address: older, messageTtl: {maximum: MAXIMUM}}
"""
USER = """
apiVersion: user.enmasse.io/v1beta1
kind: MessagingUser
metadata: {name: default.older}
spec:
  username: older
  authentication: {type: password, password: dHVtYmxl}
  authorization: [{addresses: [older], operations: [send]}]
"""


@pytest.fixture(scope="module")
def older(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    home: Path = tmp_path_factory.mktemp("home")
    return Kubectl(build("kubectl_older"), platform.data / "kubeconfig", home)


def test_older_kubectl_applies_diffs_and_deletes(older: Kubectl) -> None:
    hour, minute = (QUEUE.replace("MAXIMUM", one) for one in ("1h", "60000"))
    assert "created" in older("apply", "-f", "-", stdin=f"{hour}---{USER}")
    older("wait", "--for=condition=Ready", "address/default.older", "--timeout=20s")
    assert "server dry run" in older("apply", "--dry-run=server", "-f", "-", stdin=minute)
    difference = older.say("diff", "-f", "-", stdin=minute)
    assert (difference.code, "+    maximum: 60000" in difference.out) == (1, True)
    assert "configured" in older("apply", "-f", "-", stdin=minute)
    assert "serverside-applied" in older("apply", "--server-side", "-f", "-", stdin=minute)
    older("delete", "-f", "-", stdin=f"{hour}---{USER}")


def test_older_kubectl_refuses_an_unknown_field(older: Kubectl) -> None:
    refused = older.say("apply", "-f", "-", stdin=QUEUE.replace("messageTtl", "messageTTL"))
    assert refused.code == 1
    assert "messageTTL" in refused.err


def test_older_kubectl_explains_a_field(older: Kubectl) -> None:
    assert "Maximum time to live" in older("explain", "address.spec.messageTtl.maximum")
    assert "VERSION:  user.enmasse.io/v1beta1" in older(
        "explain", "messaginguser.spec", "--api-version=user.enmasse.io/v1beta1"
    )
