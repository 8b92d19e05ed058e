"""The sources of settings, and their validation."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from enmasse.base.data_dir import default_data_dir
from enmasse.base.errors import Invalid
from enmasse.base.settings import Settings, load, without_password


def test_settings_have_the_documented_defaults() -> None:
    settings, origins = load({}, {})
    names = ("amqp", "amqps", "ws", "wss", "mqtt", "mqtts")
    ports = {name: getattr(settings, f"{name}_port") for name in names}
    assert ports == {
        "amqp": 5672,
        "amqps": 5671,
        "ws": 8081,
        "wss": 8443,
        "mqtt": 1883,
        "mqtts": 8883,
    }
    assert settings.http_port == 8080
    assert settings.host == "127.0.0.1"
    assert settings.data == default_data_dir()
    assert set(origins.values()) == {"default"}


def test_option_overrides_variable_and_variable_overrides_file(tmp_path: Path) -> None:
    file = tmp_path / "enmasse.toml"
    file.write_text('amqp-port = 1\nws-port = 2\nhost = "::1"\nhttp_port = 3\n')
    environment = {"ENMASSE_WS_PORT": "20", "ENMASSE_HTTP_PORT": "30"}
    settings, origins = load({"http_port": "300", "data": None}, environment, file)
    assert (settings.amqp_port, settings.ws_port, settings.http_port) == (1, 20, 300)
    assert settings.host == "::1"
    assert origins["amqp_port"] == "file"
    assert origins["ws_port"] == "environment"
    assert origins["http_port"] == "option"
    assert origins["data"] == "default"


def test_enmasse_config_variable_names_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "enmasse.toml"
    file.write_text("workers = 3\n")
    settings, _ = load({}, {"ENMASSE_CONFIG": str(file)})
    assert settings.workers == 3


@pytest.mark.parametrize(("text", "port"), [("off", None), ("0", 0), ("65535", 65535)])
def test_a_port_is_a_number_or_off(text: str, port: int | None) -> None:
    assert load({"amqp_port": text}, {})[0].amqp_port == port


@pytest.mark.parametrize("text", ["65536", "-1", "http", "", "1.5"])
def test_invalid_port_is_rejected_naming_the_setting(text: str) -> None:
    with pytest.raises(Invalid, match=r"setting amqp-port: .*\(from option\)"):
        load({"amqp_port": text}, {})


@pytest.mark.parametrize(("text", "idle_s"), [("off", None), ("1", 1.0), ("90.5", 90.5)])
def test_an_idle_timeout_is_seconds_or_off(text: str, idle_s: float | None) -> None:
    assert load({"idle_timeout_s": text}, {})[0].idle_timeout_s == idle_s


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("idle_timeout_s", text) for text in ("0", "-1", "86401", "soon")),
        *(("max_frame_size", text) for text in ("511", "1048577")),
        *(("link_credit", text) for text in ("0", "100001")),
    ],
)
def test_connection_setting_out_of_range_is_rejected_by_name(name: str, text: str) -> None:
    with pytest.raises(Invalid, match=f"setting {name.replace('_', '-')}: "):
        load({name: text}, {})


@pytest.mark.parametrize(("text", "grace_s"), [("off", None), ("0", 0.0), ("2.5", 2.5)])
def test_a_grace_is_seconds_or_off(text: str, grace_s: float | None) -> None:
    assert load({"leader_grace_s": text}, {})[0].leader_grace_s == grace_s


@pytest.mark.parametrize("text", ["-1", "never", "inf", "nan", ""])
def test_invalid_leader_grace_is_rejected_naming_the_setting(text: str) -> None:
    with pytest.raises(Invalid, match=r"setting leader-grace-s: .*\(from option\)"):
        load({"leader_grace_s": text}, {})


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ""),
        ("*", "*"),
        ("null", "null"),
        ("https://Console.example.com", "https://console.example.com"),
        (
            "http://localhost:3000, https://[2001:db8::1]:8443",
            "http://localhost:3000,https://[2001:db8::1]:8443",
        ),
    ],
)
def test_ws_origins_are_normalized_as_in_browsers(text: str, origins: str) -> None:
    assert load({"ws_origins": text}, {})[0].ws_origins == origins


@pytest.mark.parametrize(
    "text",
    [
        "console.example.com",
        "https://console.example.com/",
        "https://user@console.example.com",
        "ftp://console.example.com",
        "https://console.example.com:port",
        "https://",
        "https://a.example, b.example",
    ],
)
def test_invalid_ws_origin_is_rejected_naming_the_setting(text: str) -> None:
    with pytest.raises(Invalid, match=r"setting ws-origins: must be comma-separated origins"):
        load({"ws_origins": text}, {})


@pytest.mark.parametrize("timeout_ms", [99, 3_600_001])
def test_multicast_settle_timeout_out_of_range_is_rejected(timeout_ms: int) -> None:
    with pytest.raises(Invalid, match="setting multicast-settle-timeout-ms"):
        load({"multicast_settle_timeout_ms": timeout_ms}, {})


@pytest.mark.parametrize("hold_ms", [99, 3_600_001])
def test_mqtt_hold_out_of_range_is_rejected(hold_ms: int) -> None:
    with pytest.raises(Invalid, match="setting mqtt-hold-ms"):
        load({"mqtt_hold_ms": hold_ms}, {})


@pytest.mark.parametrize("text", ["63MiB", "0", "100%", "much", "-5%"])
def test_receive_memory_is_a_size_or_a_percentage(text: str) -> None:
    assert load({"receive_memory": "2GiB"}, {})[0].receive_memory == "2GiB"
    assert load({"receive_memory": "10%"}, {})[0].receive_memory == "10%"
    with pytest.raises(Invalid, match=r"setting receive-memory: must be .*25%"):
        load({"receive_memory": text}, {})


ODD: list[Any] = ["", "x", "1.5", "9" * 5000, "²", -1, 1.5, 10**400, True, [], {}, float("nan")]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_invalid_setting_is_rejected_with_its_name_and_remedy(name: str) -> None:
    refused = 0
    for value in ODD:
        try:
            load({name: value}, {})
        except Invalid as error:
            refused += 1
            fault = error.faults[0]
            assert fault.field == name.replace("_", "-")
            assert re.fullmatch(r"must (be|not be|have) .*[^.] \(from option\)", fault.message), (
                value
            )
    assert refused, "every setting rejects some value"


def test_settings_error_states_the_allowed_values() -> None:
    for name, value, said in (
        ("workers", "300", "must be at most 256"),
        ("log_level", "loud", "must be 'debug', 'info', 'warning' or 'error'"),
        ("amqp_port", "65536", "must be a port (1 to 65535), 0 for a free one, or `off`"),
        ("leader_grace_s", "-1", "must be seconds (0 or more), or `off`"),
    ):
        with pytest.raises(Invalid, match=re.escape(f"setting {name.replace('_', '-')}: {said}")):
            load({name: value}, {})


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "enmasse.toml"
    file.write_text("amqp-prot = 1\n")
    with pytest.raises(
        Invalid, match="setting amqp-prot: unknown; known: data, store, host, .*amqp-port"
    ):
        load({}, {}, file)


def test_missing_or_malformed_settings_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot read the settings file"):
        load({}, {}, tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("=")
    with pytest.raises(Invalid, match="is not TOML"):
        load({}, {}, broken)


def test_unknown_enmasse_variables_are_ignored() -> None:
    assert load({}, {"ENMASSE_BENCH_SERVER": "x"})[0] == Settings()


def test_settings_cannot_be_changed_later() -> None:
    with pytest.raises(ValidationError):
        load({}, {})[0].host = "0.0.0.0"  # type: ignore[misc]


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_store_setting_accepts_sqlite_postgresql_and_kubernetes() -> None:
    url = "postgresql://enmasse:p%40ss@db:5432/mq?sslmode=require"
    assert load({}, {})[0].store == "sqlite"
    assert load({}, {"ENMASSE_STORE": url})[0].store == url
    for other in ("postgres://db/mq", "kubernetes://", "kubernetes://me%40home?namespace=mq"):
        assert load({"store": other}, {})[0].store == other
    with pytest.raises(Invalid, match="setting store: must be `sqlite`.* postgresql://"):
        load({"store": "mysql://db/mq"}, {})


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@db/mq", "postgresql://db/mq?password=secret"]
)
def test_store_url_with_a_password_is_rejected_on_the_command_line(url: str) -> None:
    with pytest.raises(Invalid, match="put the URL into ENMASSE_STORE") as refusal:
        load({"store": url}, {})
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite", "sqlite"),
        ("postgresql://db/mq", "postgresql://db/mq"),
        ("postgresql://u@db/mq", "postgresql://u@db/mq"),
        (
            "postgresql://u:a%40b@db:5/mq?sslmode=require",
            "postgresql://u:***@db:5/mq?sslmode=require",
        ),
        ("postgresql:///mq?password=x&host=/run", "postgresql:///mq?password=***&host=/run"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("", ""),
        ("192.0.2.7", "192.0.2.7/32"),
        ("10.0.0.0/8, 2001:DB8::/32", "10.0.0.0/8,2001:db8::/32"),
    ],
)
def test_networks_of_proxies_are_normalized(text: str, networks: str) -> None:
    assert load({"proxy_protocol": text}, {})[0].proxy_protocol == networks


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "proxy.example.com", "*"])
def test_invalid_network_of_a_proxy_is_rejected_naming_the_setting(text: str) -> None:
    with pytest.raises(Invalid, match=r"setting proxy-protocol: must be .*10\.0\.0\.0/8"):
        load({"proxy_protocol": text}, {})


def test_path_of_the_mqtt_socket_is_absolute_and_short_enough(tmp_path: Path) -> None:
    assert load({}, {})[0].mqtt_socket is None
    assert load({"mqtt_socket": "off"}, {})[0].mqtt_socket is None
    assert load({"mqtt_socket": "run/mqtt.sock"}, {})[0].mqtt_socket == Path.cwd() / "run/mqtt.sock"
    with pytest.raises(Invalid, match="setting mqtt-socket: must be a path of at most 107 bytes"):
        load({"mqtt_socket": str(tmp_path / ("x" * 107))}, {})
