"""Server and credentials of a cluster, read from kubeconfigs as kubectl reads them."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from doubles import TestClock
from enmasse.base.errors import EnMasseError, Invalid, Unavailable
from enmasse.store.cluster import TOKEN_FILE_S, Cluster

SERVER = "https://cluster.example.com:6443"


def written(path: Path, user: dict[str, Any], name: str = "me@home", **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": SERVER} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}}],
        "current-context": name,
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def bearer(cluster: Cluster, *codes: int) -> list[str | None]:
    """The tokens of the attempts of one request, which get these status codes."""
    request = httpx2.Request("GET", SERVER)
    flow = cluster.credentials.async_auth_flow(request)
    sent, seen = await anext(flow), []
    for code in codes:
        seen.append(sent.headers.get("authorization"))
        try:
            sent = await flow.asend(httpx2.Response(code, request=request))
        except StopAsyncIteration:
            break
    return seen


async def test_kubeconfig_context_is_selected_by_name(tmp_path: Path) -> None:
    file = written(tmp_path / "config", {"token": "secret"})
    environment = {"KUBECONFIG": f"{tmp_path}/none:{file}"}
    for url in ("kubernetes://", "kubernetes://me%40home", f"kubernetes://?kubeconfig={file}"):
        cluster = Cluster(url, TestClock(), environment)
        assert cluster.name == f"Kubernetes at {SERVER}"
        assert cluster.namespace == "enmasse-infra"
        assert await bearer(cluster, 200) == ["Bearer secret"]
    assert Cluster("kubernetes://?namespace=mq", TestClock(), environment).namespace == "mq"
    with pytest.raises(Invalid, match="no context 'other'"):
        Cluster("kubernetes://other", TestClock(), environment)
    with pytest.raises(Invalid, match="unknown option 'kubeconf'"):
        Cluster("kubernetes://?kubeconf=x", TestClock(), environment)


def test_pod_environment_selects_the_in_cluster_configuration(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "HOME": str(tmp_path)}
    with pytest.raises(Invalid, match="certificate-authority"):
        Cluster("kubernetes://", TestClock(), environment)  # The files of a pod are missing.
    with pytest.raises(Invalid, match="kubeconfig not found"):
        Cluster("kubernetes://me", TestClock(), environment)


async def test_token_file_is_reread_on_401_and_periodically(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    clock = TestClock()
    file = written(tmp_path / "config", {"tokenFile": "token"})
    cluster = Cluster(f"kubernetes://?kubeconfig={file}", clock)
    assert await bearer(cluster, 200) == ["Bearer first"]
    (tmp_path / "token").write_text("second\n")
    assert await bearer(cluster, 200) == ["Bearer first"]
    # The file is reread at once after a 401, and otherwise periodically.
    assert await bearer(cluster, 401, 200) == ["Bearer first", "Bearer second"]
    (tmp_path / "token").write_text("third\n")
    clock.advance(TOKEN_FILE_S)
    assert await bearer(cluster, 200) == ["Bearer third"]
    (tmp_path / "token").unlink()
    clock.advance(TOKEN_FILE_S)
    with pytest.raises(Unavailable, match="the token file"):
        await bearer(cluster, 200)


async def test_exec_credential_plugin_supplies_tokens(tmp_path: Path) -> None:
    status = {"token": "given", "expirationTimestamp": "2026-01-01T01:00:00Z"}
    program = (
        "import json, os; asked = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        f" assert asked['kind'] == 'ExecCredential'; print('''{json.dumps({'status': status})}''')"
    )
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable}
    file = written(tmp_path / "config", {"exec": how | {"args": ["-c", program]}})
    cluster = Cluster(f"kubernetes://?kubeconfig={file}", TestClock())
    assert await bearer(cluster, 200) == ["Bearer given"]
    file = written(tmp_path / "config", {"exec": how | {"args": ["-c", "print('secret')"]}})
    with pytest.raises(Unavailable, match="returned no token") as refusal:
        await bearer(Cluster(f"kubernetes://?kubeconfig={file}", TestClock()), 200)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        ({"token": "s3cret"}, {"server": "http://c"}, "must be https://"),
        ({"token": "s3cret"}, {"insecure-skip-tls-verify": True}, "set the CA"),
        ({"username": "a", "password": "s3cret"}, {}, "username is not supported"),
        ({"auth-provider": {"name": "s3cret"}}, {}, "use exec"),
        ({"client-key-data": "%%s3cret"}, {}, "client-key of the kubeconfig"),
    ],
)
def test_unsupported_kubeconfig_setting_is_rejected_with_a_remedy(
    user: dict[str, Any], cluster: dict[str, Any], told: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "config", user, **cluster)
    with pytest.raises(EnMasseError, match=told) as refusal:
        Cluster(f"kubernetes://?kubeconfig={file}", TestClock())
    assert "s3cret" not in str(refusal.value)


def test_malformed_client_certificate_is_rejected(tmp_path: Path) -> None:
    none = base64.b64encode(b"none").decode()
    user = {"client-certificate-data": none, "client-key-data": none}
    file = written(tmp_path / "config", user)
    with pytest.raises(Invalid, match="a certificate or key for Kubernetes at"):
        Cluster(f"kubernetes://?kubeconfig={file}", TestClock()).tls()
