"""The settings of the console as the API takes them."""

from pathlib import Path

from enmasse.api.console.routes import ConsoleOptions, Federation
from enmasse.api.history.prometheus import Prometheus
from enmasse.auth.authorization_code import Provider
from enmasse.auth.bearers import Claims
from enmasse.auth.sessions import Lifetimes
from enmasse.base.errors import Code, Invalid
from enmasse.base.settings import Settings


def console_options(settings: Settings) -> ConsoleOptions:
    """Return the options of the console.

    Raises: Invalid if a file of the identity provider cannot be read.
    """
    lifetimes = Lifetimes(
        settings.console_idle_s, settings.console_session_s, settings.oidc_session_s
    )
    federation = None
    if settings.oidc_issuer:
        provider = Provider(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=_text("oidc-client-secret-file", settings.oidc_client_secret_file),
            ca=_text("oidc-ca-file", settings.oidc_ca_file),
        )
        claims = Claims(settings.oidc_user_claim, settings.oidc_roles_claim)
        audience = settings.oidc_audience or settings.oidc_client_id
        federation = Federation(provider, audience, claims)
    prometheus = None
    if settings.prometheus:
        prometheus = Prometheus(
            settings.prometheus,
            token=_text("prometheus-token-file", settings.prometheus_token_file),
            ca=_text("prometheus-ca-file", settings.prometheus_ca_file),
        )
    return ConsoleOptions(
        lifetimes=lifetimes,
        federation=federation,
        public_url=settings.console_url,
        prometheus=prometheus,
    )


def _text(setting: str, file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text().strip()
    except (OSError, ValueError) as error:
        raise Invalid(
            Code.SETTING_INVALID, f"setting {setting}: cannot read {file}: {error}"
        ) from None
