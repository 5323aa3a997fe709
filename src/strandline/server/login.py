"""Log in with a token, and out again: pages without scripts, and the cookie of a session."""

from __future__ import annotations

import secrets
from html import escape

from ..errors import Forbidden, Unauthorized
from .bodies import LoginBody, LogoutBody
from .callers import cookie, is_secure, session_cookie, session_secret
from .exchange import Answer, Exchange, Headers
from .pages import page, start_page
from .sessions import SESSION_SECONDS

_FORM_SECONDS = 3600
_HINT = "The token is not valid: it is unknown, has expired, or was revoked."
_AGAIN = "The page was too old, or cookies are off. Try again."


async def start(exchange: Exchange) -> Answer:
    """Show the start page, or go to the page to log in."""
    callers = exchange.service.callers
    session = (await callers.visitor(exchange)).session
    if callers.tokens is not None and session is None:
        return _go_to(exchange, "/login")
    return start_page(exchange.root, csrf=None if session is None else session.csrf)


async def login(exchange: Exchange) -> Answer:
    """Show the page to log in with a token."""
    return _login_page(exchange, "")


async def log_in(exchange: Exchange) -> Answer:
    """Log in with a token, and go to the start page."""
    body: LoginBody = exchange.body
    callers = exchange.service.callers
    if callers.tokens is None:
        return _go_to(exchange, "/")
    exchange.check_rate()
    if not _is_same(cookie(exchange, _form_cookie(exchange)), body.csrf):
        return _login_page(exchange, _AGAIN, status=403)
    try:
        token = await callers.token_of(body.token.strip())
    except Unauthorized:
        return _login_page(exchange, _HINT, status=401)
    _end_session(exchange)
    secret = callers.sessions.begin(token)
    kept = _set_cookie(exchange, session_cookie(exchange), secret, SESSION_SECONDS)
    return _go_to(exchange, "/", kept, _set_cookie(exchange, _form_cookie(exchange), "", 0))


async def log_out(exchange: Exchange) -> Answer:
    """Log out, and go to the page to log in."""
    body: LogoutBody = exchange.body
    session = (await exchange.service.callers.visitor(exchange)).session
    if session is not None and not _is_same(session.csrf, body.csrf):
        raise Forbidden("the form is not of a page of this server", hint="log out on the start page")
    _end_session(exchange)
    return _go_to(exchange, "/login", _set_cookie(exchange, session_cookie(exchange), "", 0))


def _end_session(exchange: Exchange) -> None:
    secret = session_secret(exchange)
    if secret is not None:
        exchange.service.callers.sessions.end(secret)


def _login_page(exchange: Exchange, message: str, *, status: int = 200) -> Answer:
    if exchange.service.callers.tokens is None:
        return page("Log in", "<main>\n<h1>Log in</h1>\n<p>This server has no tokens.</p>\n</main>")
    csrf = secrets.token_urlsafe(32)
    alert = f'<p role="alert">{escape(message)}</p>\n' if message else ""
    answer = page(
        "Log in",
        f'<main>\n<h1>Log in</h1>\n{alert}<form method="post" action="{escape(exchange.root, quote=True)}/login">\n'
        f'<input type="hidden" name="csrf" value="{csrf}">\n'
        '<p><label for="token">Token</label><br>\n<input id="token" name="token" type="password" '
        'autocomplete="current-password" required autofocus size="60"></p>\n'
        "<p><button>Log in</button></p>\n</form>\n"
        "<p>Make a token: <code>strandline token create --tokens FILE --scope read</code></p>\n</main>",
        has_form=True,
        status=status,
    )
    answer.headers = [*answer.headers, _set_cookie(exchange, _form_cookie(exchange), csrf, _FORM_SECONDS)]
    return answer


def _is_same(known: str | None, given: str) -> bool:
    return known is not None and secrets.compare_digest(known.encode(), given.encode())


def _form_cookie(exchange: Exchange) -> str:
    return f"{session_cookie(exchange)}-form"


def _go_to(exchange: Exchange, place: str, *cookies: tuple[bytes, bytes]) -> Answer:
    where = f"{exchange.root}{place}"
    answer = page(
        "Go on", f'<main>\n<p><a href="{escape(where, quote=True)}">Go on</a></p>\n</main>', status=303
    )
    location: Headers = [(b"location", where.encode("ascii", "ignore"))]
    answer.headers = [*answer.headers, *location, *cookies]
    return answer


def _set_cookie(exchange: Exchange, name: str, value: str, seconds: float) -> tuple[bytes, bytes]:
    place = "/" if name.startswith("__Host-") else exchange.root or "/"
    secure = "; Secure" if is_secure(exchange) else ""
    text = f"{name}={value}; Path={place}; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("latin-1", "ignore")
