"""A real API server of Kubernetes with its etcd, of the test's own, on free ports."""

import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from enmasse.resources.crd import definitions
from enmasse.store.cluster_kinds import MARK, MARKED
from kube.go_programs import build

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 30
TOKEN, STRANGER = "secret-token", "strangers-token"
CONTEXT = "test:cluster@home"
Document = dict[str, Any]


class Refusal(Exception):
    """The API server does not do what it was asked."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class KubeServer:
    """etcd and an API server. `start` and `stop` are about the latter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._program = build("kubernetes")
        self._etcd_port, self._peer_port, self.port = (_free_port() for _ in range(3))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "tokens.csv").write_text(
            f"{TOKEN},admin,1,system:masters\n{STRANGER},stranger,2\n"
        )
        key = ["openssl", "genrsa", "-out", folder / "sa.key", "2048"]
        subprocess.run(key, check=True, capture_output=True)
        self.url = f"kubernetes://{CONTEXT.replace('@', '%40')}?kubeconfig={self.config(TOKEN)}"

    def start_etcd(self) -> None:
        own, peers = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        self._run(
            *("etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync"),
            *("--listen-client-urls", own, "--advertise-client-urls", own),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )

    def config(self, token: str) -> Path:
        """Write the kubeconfig of who has a token."""
        path = self.folder / f"{token}.yaml"
        cluster = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": "certs/apiserver.crt",
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}],
            "current-context": CONTEXT,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def start(self) -> None:
        """Start the API server, and wait until it is ready."""
        key = self.folder / "sa.key"
        process = self._run(
            *("kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{self._etcd_port}"),
            *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
            *("--secure-port", str(self.port), "--endpoint-reconciler-type", "none"),
            *("--cert-dir", self.folder / "certs", "--authorization-mode", "RBAC"),
            *("--token-auth-file", self.folder / "tokens.csv"),
            *("--service-cluster-ip-range", "10.96.0.0/16"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", key, "--service-account-signing-key-file", key),
        )
        ends = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            log = self.folder / "kube-apiserver.log"
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < ends, log.read_text()[-2000:]

    def stop(self, name: str = "kube-apiserver") -> None:
        """Stop the API server as by a power cut."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(STOP_TIMEOUT_S)

    def close(self) -> None:
        for name in list(self._processes):
            self.stop(name)

    def forget(self) -> None:
        """Restart the API server, and let it forget all changes of before: of what has been, only
        the last is kept."""
        self.stop()
        found = self._etcd("kv/range", {"key": "AA=="})
        self._etcd("kv/compaction", {"revision": found["header"]["revision"], "physical": True})
        self.start()

    def request(
        self, method: str, path: str, body: object = None, media: str = "application/json"
    ) -> Document:
        """Ask the API server as its administrator. Raises: Refusal."""
        asked = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {TOKEN}", "content-type": media},
            method=method,
        )
        context = ssl.create_default_context(cafile=str(self.folder / "certs" / "apiserver.crt"))
        while True:
            try:
                with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
                    found: Document = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read().decode()
                # A kind is not served for a moment after its definition has changed, or the server
                # has started.
                if error.code != 429 and "paths have been installed" not in text:
                    raise Refusal(error.code, text) from None

    def clear(self) -> None:
        """Remove everything of ours but definitions, and see that namespace `north` is there."""
        namespaces = {one["metadata"]["name"] for one in self._items("/api/v1/namespaces")}
        for name in {"north", "enmasse-infra"} - namespaces:
            self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        paths = ["/apis/coordination.k8s.io/v1/leases"]
        for one in definitions():
            spec = one["spec"]
            version = spec["versions"][0]["name"]
            paths.append(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
        # Of these only what has our mark is ours.
        marked = [f"/api/v1/{plural}" for plural in ("secrets", "configmaps", "services")]
        for path in paths + marked:
            ours = f"?labelSelector={MARK}%3D{MARKED}" if path in marked else ""
            for item in self._items(f"{path}{ours}"):
                base, _, plural = path.rpartition("/")
                metadata = item["metadata"]
                own = f"{base}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
                if metadata.get("finalizers"):
                    patch = {"metadata": {"finalizers": None}}
                    self.request("PATCH", own, patch, "application/merge-patch+json")
                if not metadata.get("deletionTimestamp"):
                    self.request("DELETE", own)

    def _items(self, path: str) -> list[Document]:
        try:
            items: list[Document] = self.request("GET", path)["items"]
        except Refusal as error:
            if error.code == 404:
                return []  # no definition yet
            raise
        return items

    def _is_ready(self) -> bool:
        try:
            self.request("GET", "/apis/coordination.k8s.io/v1/leases")
            self.request("GET", "/api/v1/namespaces/default")
        except (OSError, Refusal):
            return False
        return True

    def _etcd(self, what: str, body: Document) -> Document:
        url = f"http://127.0.0.1:{self._etcd_port}/v3/{what}"
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=30) as answer:
            found: Document = json.load(answer)
            return found

    def _run(self, name: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            command = [self._program, name, *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._processes[name] = process
        return process


@contextmanager
def kube_server() -> Iterator[KubeServer]:
    """Start a server and stop it at the end."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="enmasse-kubernetes-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = KubeServer(folder)
        stack.callback(server.close)
        server.start_etcd()
        server.start()
        yield server


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
