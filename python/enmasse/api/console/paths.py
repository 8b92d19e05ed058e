"""Paths of the console, and which of them need no session. Pure."""

ROOT = "/console/"
LOGIN = f"{ROOT}login"
ASSETS = f"{ROOT}assets/"
LOGIN_METHODS = f"{ROOT}login-methods"
SESSION = f"{ROOT}session"
CODES = f"{ROOT}codes"
OIDC_START = f"{ROOT}oidc/start"
OIDC_CALLBACK = f"{ROOT}oidc/callback"
WEB_SOCKET = f"{ROOT}ws"

_NEED_CALLER = frozenset(
    {("GET", SESSION), ("HEAD", SESSION), ("DELETE", SESSION), ("GET", WEB_SOCKET)}
)


def is_console(path: str) -> bool:
    """Whether a path belongs to the console rather than to the API."""
    return path in ("/", ROOT.rstrip("/")) or path.startswith(ROOT)


def is_public(method: str, path: str) -> bool:
    """Whether a request needs no session: files, which contain no data, and logins."""
    return is_console(path) and path != CODES and (method, path) not in _NEED_CALLER
