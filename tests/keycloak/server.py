"""A real Keycloak: fetched once by Maven, started on free ports with a realm that is imported."""

import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
import pytest

VERSION = "26.7.3"
ARTIFACT = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:tar.gz"
MAVEN_GET = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "enmasse" / "keycloak"
FETCH_TIMEOUT_S = 900


def fetched() -> Path:
    """Return the folder of Keycloak; skip the test where it cannot be had."""
    home = CACHE / f"keycloak-{VERSION}"
    if home.exists():
        return home
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("Keycloak needs Java and Maven: install default-jre-headless and maven")
    repository = Path.home() / ".m2" / "repository"
    command = ["mvn", "-q", "-B", MAVEN_GET, f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    folder = repository / "org" / "keycloak" / "keycloak-quarkus-dist" / VERSION
    archive = folder / f"keycloak-quarkus-dist-{VERSION}.tar.gz"
    if done.returncode != 0 or not archive.exists():
        pytest.skip(f"Maven cannot fetch {ARTIFACT}: {done.stdout[-500:]}{done.stderr[-500:]}")
    CACHE.mkdir(parents=True, exist_ok=True)
    beside = CACHE / "unpacking"
    shutil.rmtree(beside, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(beside, filter="data")
    (beside / home.name).rename(home)
    return home


def free_port() -> int:
    """Return a port that is free now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def realm(
    name: str,
    users: dict[str, list[str]],
    password: str,
    redirects: Sequence[str] = (),
    roles: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """A realm with a public client `enmasse`, whose tokens are for it and say the groups of users.
    With `redirects` people log in in their browsers, and are sent back there. `roles` are the realm
    roles by user; access tokens say them in the claim `realm_access`.
    """
    roles = roles or {}
    groups = sorted({group for of_one in users.values() for group in of_one})
    mapper = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "access.token.claim": "true"},
    }
    audience = {
        "name": "audience",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"included.client.audience": "enmasse", "access.token.claim": "true"},
    }
    client = {
        "clientId": "enmasse",
        "enabled": True,
        "publicClient": True,
        "directAccessGrantsEnabled": True,
        "standardFlowEnabled": bool(redirects),
        "redirectUris": list(redirects),
        "protocolMappers": [mapper, audience] if redirects else [mapper],
    }
    # The default profile of a user demands an e-mail address and both names.
    people = [
        {
            "username": user,
            "enabled": True,
            "email": f"{user}@example.com",
            "emailVerified": True,
            "firstName": user,
            "lastName": user,
            "groups": of_one,
            "realmRoles": list(roles.get(user, ())),
            "credentials": [{"type": "password", "value": password, "temporary": False}],
        }
        for user, of_one in users.items()
    ]
    return {
        "realm": name,
        "enabled": True,
        "sslRequired": "none",
        "accessTokenLifespan": 900,
        "groups": [{"name": group} for group in groups],
        "roles": {"realm": [{"name": one} for one in sorted({*chain(*roles.values())})]},
        "clients": [client],
        "users": people,
    }


@contextmanager
def keycloak(folder: Path, *realms: dict[str, Any]) -> Iterator[str]:
    """Start Keycloak with these realms and its data in a folder; return its URL."""
    home = folder / "keycloak"
    shutil.copytree(fetched(), home, symlinks=True)
    imported = home / "data" / "import"
    imported.mkdir(parents=True)
    for one in realms:
        (imported / f"{one['realm']}.json").write_text(json.dumps(one))
    port, management = free_port(), free_port()
    command = [
        *(str(home / "bin" / "kc.sh"), "start-dev", "--import-realm", "--health-enabled=true"),
        *("--http-host=127.0.0.1", f"--http-port={port}", f"--http-management-port={management}"),
    ]
    environment = os.environ | {
        "KC_BOOTSTRAP_ADMIN_USERNAME": "admin",
        "KC_BOOTSTRAP_ADMIN_PASSWORD": "admin",
        "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
    }
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = _until_started(process.stdout)
            # What it says later is nobody's concern, but it must not wait to say it.
            draining = threading.Thread(target=lambda: deque(said, maxlen=0))
            draining.start()
            url = f"http://127.0.0.1:{management}/health/ready"
            assert httpx2.get(url, timeout=60).json()["status"] == "UP"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
    draining.join()


def _until_started(output: Iterable[str]) -> Iterator[str]:
    """Read what Keycloak says until it listens; return the rest."""
    lines = iter(output)
    heard: list[str] = []
    for line in lines:
        heard.append(line)
        if "Listening on:" in line:
            return lines
    raise AssertionError("Keycloak has ended: " + "".join(heard[-40:]))


def token(url: str, realm_name: str, user: str, password: str) -> str:
    """Return an access token of a user, as a client would get it."""
    answer = httpx2.post(
        f"{url}/realms/{realm_name}/protocol/openid-connect/token",
        data={
            "grant_type": "password",
            "client_id": "enmasse",
            "username": user,
            "password": password,
            "scope": "openid",
        },
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])
