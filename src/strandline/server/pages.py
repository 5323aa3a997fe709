"""The pages for people: plain HTML without scripts, and nothing from other hosts."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from .exchange import Answer, Headers

_HEADERS: Headers = [
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # without it, the forms of our pages would have no origin
    (b"cross-origin-opener-policy", b"same-origin"),
]
_STYLE = """
:root { color-scheme: light dark; --accent: #0b6e5f; --ground: #fff; --text: #1a2421; --quiet: #5b6764;
  --line: #dfe5e3; --code: #f4f7f6 }
@media (prefers-color-scheme: dark) { :root { --accent: #5cc9b4; --ground: #101614; --text: #dfe7e4; --quiet: #93a29d;
  --line: #2a3532; --code: #18201e } }
* { box-sizing: border-box }
html { scroll-padding-top: 16px }
body { font: 16px/24px system-ui, sans-serif; margin: 0; background: var(--ground); color: var(--text) }
main { max-width: 48rem; margin: 0 auto; padding: 32px 16px 64px }
a { color: var(--accent); text-underline-offset: 2px }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
h1 { font-size: 28px; line-height: 36px; font-weight: 600; margin: 0 0 16px }
h2 { font-size: 20px; line-height: 28px; font-weight: 600; margin: 48px 0 8px }
code, pre { font: 14px/20px ui-monospace, monospace }
pre { overflow-x: auto; margin: 8px 0; padding: 12px; background: var(--code); border-left: 2px solid var(--line) }
"""


def page(title: str, content: str, *, style: str = "", has_form: bool = False, status: int = 200) -> Answer:
    """Return an HTML page with this content, which is HTML already."""
    looks = _STYLE + style
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{looks}</style>\n</head>\n"
        f"<body>\n{content}\n</body>\n</html>\n"
    )
    headers = [(b"content-security-policy", _policy(looks, has_form=has_form)), *_HEADERS]
    return Answer(text.encode(), status, b"text/html; charset=utf-8", headers)


def _policy(style: str, *, has_form: bool) -> bytes:
    """Return a policy that allows this style and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest())
    return (
        b"default-src 'none'; style-src 'sha256-%b'; img-src 'self'; "
        b"base-uri 'none'; form-action %b; frame-ancestors 'none'"
        % (digest, b"'self'" if has_form else b"'none'")
    )


def start_page(root: str, *, csrf: str | None = None) -> Answer:
    """Return the page at `/`, with a button to log out for somebody who is logged in."""
    base = escape(root, quote=True)
    button = (
        f'<form method="post" action="{base}/logout">\n<input type="hidden" name="csrf" value="{csrf}">\n'
        "<p><button>Log out</button></p>\n</form>\n"
    )
    return page(
        "Strandline",
        "<main>\n<h1>Strandline</h1>\n<p>An event store in which the consistency boundary of a decision is a query.</p>\n<ul>\n"
        f'<li><a href="{base}/docs">The HTTP API</a></li>\n'
        f'<li><a href="{base}/openapi.json">Its OpenAPI description</a></li>\n'
        f'<li><a href="{base}/v1/logs">The logs</a></li>\n</ul>\n{"" if csrf is None else button}</main>',
        has_form=csrf is not None,
    )
