"""kubectl with a token that has a role. T-AS-8: a tenant creates in its own namespace only."""

from pathlib import Path

import pytest
import yaml

from kube.go_programs import BUILD_TIMEOUT_S, Kubectl, build
from platform_process import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]

SPACE = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: team}
spec: {type: standard, authenticationService: {type: standard}}
"""


@pytest.fixture
def tenant(platform: Platform, tmp_path: Path) -> Kubectl:
    """kubectl as a tenant of the namespace `shop`."""
    token = platform.enmasse("token", "create", "ci", "--grant", "tenant-edit=shop").strip()
    config = yaml.safe_load((platform.data / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return Kubectl(build(), file, tmp_path)


def test_kubectl_token_option_overrides_the_kubeconfig(platform: Platform, tmp_path: Path) -> None:
    kubectl = Kubectl(build(), platform.data / "kubeconfig", tmp_path)
    assert "enmasse:token" in kubectl("auth", "whoami")
    token = platform.enmasse("token", "create", "viewer", "--grant", "tenant-view=shop").strip()
    assert "enmasse:tenant-view" in kubectl("--token", token, "auth", "whoami")
    refused = kubectl.say("--token", token, "get", "secrets", "-A")
    assert refused.code == 1
    assert 'User "viewer" cannot list resource "secrets"' in refused.err


def test_T_AS_8_kubectl_of_a_tenant_is_confined_to_its_namespace(tenant: Kubectl) -> None:
    assert tenant("auth", "can-i", "create", "addresses", "-n", "shop") == "yes\n"
    assert tenant.say("auth", "can-i", "create", "addresses", "-n", "other").out.startswith("no - ")
    assert "messagingusers" in tenant("auth", "can-i", "--list", "-n", "shop")
    assert "enmasse:tenant-edit" in tenant("auth", "whoami")
    tenant("apply", "-n", "shop", "-f", "-", stdin=SPACE)
    assert "team" in tenant("get", "addressspaces", "-n", "shop")
    for refused in (
        tenant.say("apply", "-n", "other", "-f", "-", stdin=SPACE),
        tenant.say("get", "addressspaces", "-A"),
        tenant.say("get", "secrets", "-n", "enmasse-tokens"),
    ):
        assert refused.code == 1
        assert "Error from server (Forbidden): " in refused.err
