"""Who may use the server."""

import hmac
import ipaddress

from fastapi import Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rotta.serve.refusals import Refusal

bearer = HTTPBearer(auto_error=False, description="Where the server was started with a token.")


def check_host(host: str, token: str | None) -> None:
    """Refuse to listen where others could reach a server without a token.

    Raises:
        ValueError: Says how to do it.

    Example:
        >>> check_host("0.0.0.0", token="secret"), check_host("127.0.0.1", token=None)
        (None, None)
    """
    if token is None and not is_loopback(host):
        raise ValueError(
            f"without a token only this machine may be served: set ROTTA_TOKEN to listen on {host}"
        )
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise ValueError("a token is made of printable ASCII characters: choose another")


def is_loopback(host: str) -> bool:
    """Whether an address leads to this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Access:
    """Lets in who knows the token; without one, whoever is on this machine, but no web page."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode()

    def check(self, request: Request, given: HTTPAuthorizationCredentials | None) -> None:
        """Refuse whoever may not.

        Raises:
            Refusal: 401 with a token, 403 without.
        """
        if self._token is None:
            _check_no_other_page(request)
        elif given is None or not hmac.compare_digest(given.credentials.encode(), self._token):
            raise Refusal(401, "say who you are: Authorization: Bearer TOKEN")


def _check_no_other_page(request: Request) -> None:
    """A page of another site, open in a browser here, could reach the loopback address too."""
    host = request.headers.get("host", "")
    foreign = request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    origin = request.headers.get("origin")  # all that older browsers tell
    foreign |= origin is not None and origin.lower() != f"{request.url.scheme}://{host.lower()}"
    if foreign or not is_loopback(_without_port(host)):
        raise Refusal(
            403,
            "without a token the server is for this machine alone: use http://127.0.0.1, or start "
            "it with ROTTA_TOKEN",
        )


def _without_port(host: str) -> str:
    """``[::1]:80`` to ``[::1]``, ``localhost:80`` to ``localhost``; nonsense stays nonsense."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
