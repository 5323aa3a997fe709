"""The pages for people: plain HTML without scripts, and nothing from other hosts."""

from __future__ import annotations

from html import escape

from .exchange import Answer, Headers

_POLICY = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HTML_HEADERS: Headers = [
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_STYLE = """
:root { color-scheme: light dark; --accent: #0b6e5f; --line: #8884 }
@media (prefers-color-scheme: dark) { :root { --accent: #5cc9b4 } }
body { font: 16px/24px system-ui, sans-serif; max-width: 60rem; margin: 32px auto; padding: 0 16px }
a { color: var(--accent) }
h1, h2 { font-weight: 600; line-height: 32px }
code, pre { font-family: ui-monospace, monospace; font-size: 14px }
pre { overflow-x: auto; padding: 12px; border: 1px solid var(--line) }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line) }
"""


def page(title: str, content: str) -> Answer:
    """Return an HTML page with this content, which is HTML already."""
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escape(title)}</h1>\n{content}\n</main>\n</body>\n</html>\n"
    )
    return Answer(text.encode(), content_type=b"text/html; charset=utf-8", headers=HTML_HEADERS)


def start_page(root: str) -> Answer:
    """Return the page at `/`."""
    base = escape(root, quote=True)
    return page(
        "Strandline",
        "<p>An event store in which the consistency boundary of a decision is a query.</p>\n<ul>\n"
        f'<li><a href="{base}/docs">The HTTP API</a></li>\n'
        f'<li><a href="{base}/openapi.json">Its OpenAPI description</a></li>\n'
        f'<li><a href="{base}/v1/logs">The logs</a></li>\n</ul>',
    )
