"""The page about the API for people, made from the table of routes."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from . import answers, bodies
from .describe import THEMES, error_classes, failures, parameter_schemas, schemas, successes
from .examples import Example, examples_of
from .exchange import Answer, Exchange
from .formats import CONTENT_TYPES
from .pages import page
from .problem import title_of

if TYPE_CHECKING:
    from .routes import Route

_STYLE = """
main { max-width: 72rem; display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: 0 48px }
main > header { grid-column: 1 / -1; border-bottom: 1px solid var(--line); margin-bottom: 24px; padding-bottom: 8px }
nav { font-size: 14px; line-height: 20px; align-self: start; position: sticky; top: 16px; max-height: calc(100vh - 32px);
  overflow-y: auto }
nav ul { list-style: none; margin: 0 0 16px; padding: 0 }
nav li { padding: 2px 0 }
nav > ul > li > a { font-weight: 600; color: var(--text) }
nav ul ul { margin: 4px 0 12px }
nav a { text-decoration: none }
nav a:hover { text-decoration: underline }
article > section:first-child h2 { margin-top: 0 }
h3 { margin: 32px 0 4px; padding-top: 16px; border-top: 1px solid var(--line); font-size: 16px; font-weight: 600;
  line-height: 24px }
h3 a { color: inherit; text-decoration: none; overflow-wrap: anywhere }
h3 a:hover, h3 a:focus { text-decoration: underline }
h3 code { font-size: 15px }
h3 b { color: var(--accent); font-weight: 600; margin-right: 4px }
h4 { margin: 16px 0 4px; font-size: 14px; line-height: 20px; font-weight: 600; color: var(--quiet) }
p { margin: 4px 0 8px }
dl { margin: 0; display: grid; grid-template-columns: minmax(9rem, 14rem) minmax(0, 1fr); gap: 4px 16px;
  font-size: 15px }
dt { overflow-wrap: anywhere }
dt small, dd small { color: var(--quiet); font-size: 13px; margin-left: 4px }
dd { margin: 0 }
dd:target, dt:target { background: var(--code) }
pre.answer { max-height: 280px; overflow-y: auto }
@media (max-width: 60rem) {
  main { display: block; padding-top: 16px }
  nav { position: static; max-height: none; columns: 2; column-gap: 16px; border-bottom: 1px solid var(--line);
    margin-bottom: 24px }
  nav > ul { margin: 0 }
  nav > ul > li { break-inside: avoid }
}
@media (max-width: 36rem) {
  nav { columns: 1 }
  nav ul ul { display: none }
  dl { display: block }
  dd { margin: 0 0 8px }
}
"""


async def docs(exchange: Exchange) -> Answer:
    """Show the page about the API."""
    return _page()


@cache
def _page() -> Answer:
    from .routes import ROUTES

    themes = dict.fromkeys(route.access for route in ROUTES)
    by_theme = {theme: [route for route in ROUTES if route.access == theme] for theme in themes}
    links = "\n".join(_links(THEMES[theme][0], routes) for theme, routes in by_theme.items())
    sections = "\n".join(_theme(THEMES[theme], routes) for theme, routes in by_theme.items())
    return page(
        "The HTTP API of Strandline",
        f"<main>\n<header>\n<h1>The HTTP API</h1>\n<p>{_ABOUT}</p>\n</header>\n"
        f'<nav aria-label="On this page">\n<ul>\n{links}\n{_MORE_LINKS}\n</ul>\n</nav>\n'
        f"<article>\n{sections}\n{_forms()}\n{_parts()}\n{_errors()}\n</article>\n</main>",
        style=_STYLE,
    )


LINE = 80
_MORE_LINKS = "\n".join(
    f'<li><a href="#{anchor}">{title}</a></li>'
    for anchor, title in {"forms": "Forms of events", "parts": "Parts", "errors": "Errors"}.items()
)
FORMS = {
    "json": "One page: `{events, head, condition, next}`. At most `limit` events, or 1,000.",
    "ndjson": "All events, a line `{event}` each. The last line is `{end: {head, condition}}`, or `{error}` if it failed.",
    "csv": "Rows for spreadsheets. An answer that fails is cut off, which your client reports.",
    "arrow": "Columns for pandas, DuckDB or Spark. An answer that fails is cut off, which your client reports.",
}
_PARTS = (
    answers.EventAnswer,
    bodies.EventBody,
    bodies.QueryBody,
    bodies.ItemBody,
    bodies.ConditionBody,
    bodies.PartBody,
)
_ABOUT = (
    f"Strandline {escape(__version__)}. Bodies and answers are JSON. A read hands over the <code>condition</code> to "
    "append with. The append is refused if an event that matches is newer. "
    'The <a href="openapi.json">OpenAPI description</a> has every field for programs.'
)


def _links(title: str, routes: list[Route]) -> str:
    items = "".join(f'<li><a href="#{_anchor(route)}">{_name(route)}</a></li>' for route in routes)
    return f'<li><a href="#{_slug(title)}">{escape(title)}</a>\n<ul>{items}</ul></li>'


def _name(route: Route) -> str:
    place = route.path.removeprefix("/v1/logs/{log}") if route.is_of_log else route.path
    return f"<code>{escape(f'{route.method} {place}')}</code>"


def _anchor(route: Route) -> str:
    return f"{route.method.lower()}-{route.call.__name__}".replace("_", "-")


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower())


def _theme(theme: tuple[str, str], routes: list[Route]) -> str:
    title, about = theme
    sections = "\n".join(_route(route) for route in routes)
    heading = f'<h2 id="{_slug(title)}">{escape(title)}</h2>'
    return f"<section>\n{heading}\n<p>{escape(about)}</p>\n{sections}\n</section>"


def _route(route: Route) -> str:
    anchor = _anchor(route)
    request = f"<code><b>{route.method}</b> {escape(route.path)}</code>"
    parts = [
        f'<h3 id="{anchor}"><a href="#{anchor}">{request}</a></h3>',
        f"<p>{_prose(f'{route.summary} {route.details}'.strip())}</p>",
        _fields("Parameters", _parameters(route)),
        _fields("Body", _body(route.body)),
        _fields("Answer", _answers(route)),
        *map(_example, examples_of(route.call.__name__)),
    ]
    return "\n".join(part for part in parts if part)


def _parameters(route: Route) -> list[tuple[str, str, str]]:
    rows = []
    for name, schema in parameter_schemas(route).items():
        needed = ", required" if schema["required"] else ""
        rows.append((f"<code>{name}</code>", f"{_kind(schema)}{needed}", _prose(schema["description"])))
    return rows


def _body(kind: type | None) -> list[tuple[str, str, str]]:
    if kind is None:
        return []
    fields = schemas()[kind.__name__]
    rows = []
    for name, field in fields["properties"].items():
        needed = ", required" if name in fields.get("required", []) else ""
        rows.append((f"<code>{name}</code>", f"{_kind(field)}{needed}", _prose(field["description"])))
    return rows


def _answers(route: Route) -> list[tuple[str, str, str]]:
    forms = ", ".join(f"<code>{kind}</code>" for kind in route.produces)
    if route.answer is answers.PageAnswer:
        forms = 'in one of the <a href="#forms">forms of events</a>'
    done = " or ".join(map(str, successes(route)))
    shown = "" if route.answer is None else _fields_of(route.answer)
    problems = ", ".join(map(str, failures(route)))
    refused = ("Otherwise", "", f'<a href="#errors">a problem</a>: {problems}')
    return [(f"<code>{done}</code>", "", f"{shown} {forms}".strip()), refused]


def _fields_of(kind: type) -> str:
    names = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
    return f"<code>{{{names}}}</code>"


def _fields(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    items = "\n".join(
        f"<dt>{name}{f' <small>{kind}</small>' if kind else ''}</dt><dd>{text}</dd>"
        for name, kind, text in rows
    )
    return f"<h4>{title}</h4>\n<dl>\n{items}\n</dl>"


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        name = _short(str(schema["$ref"]).rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each != {"type": "null"}]
        return " or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"<code>{each}</code>" for each in schema["enum"] if each is not None)
    if isinstance(schema.get("items"), dict):
        return f"list of {_kind(schema['items'])}"
    kind = str(schema.get("type", "any"))
    return {"string": "text", "array": "list"}.get(kind, kind)


def _example(example: Example) -> str:
    from .routes import ROUTES

    (route, *_) = [each for each in ROUTES if each.call.__name__ == example.call]
    place = example.target if example.target.startswith("/") else f"/v1/logs/default/{example.target}"
    method = "POST" if example.body is not None else route.method
    request = [f"{method} {place}"]
    if example.body is not None:
        kind = "application/x-ndjson" if isinstance(example.body, list) else "application/json"
        request += [f"Content-Type: {kind}", "", _written(example.body)]
    return (
        f"<h4>Example: {example.status}</h4>\n<pre>{escape(chr(10).join(request))}</pre>\n"
        f'<pre class="answer" tabindex="0">{escape(_written(example.answer))}</pre>'
    )


def _written(value: Any) -> str:
    """Return JSON for people, or a line for each value of a list."""
    if isinstance(value, list):
        return "\n".join(json.dumps(each, ensure_ascii=False) for each in value)
    return _broken(value, "")


def _broken(value: Any, margin: str) -> str:
    """Return JSON over several lines, unless it is short."""
    text = json.dumps(value, ensure_ascii=False)
    if len(margin) + len(text) <= LINE or not isinstance(value, dict | list):
        return text
    inner = f"{margin}  "
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(name)}: {_broken(each, inner)}" for name, each in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{margin}}}"
    return "[\n" + ",\n".join(f"{inner}{_broken(each, inner)}" for each in value) + f"\n{margin}]"


def _prose(text: str) -> str:
    """Return a sentence as HTML, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _forms() -> str:
    items = "\n".join(
        f"<dt><code>{escape(CONTENT_TYPES[name])}</code> <small>{name}</small></dt><dd>{_prose(about)}</dd>"
        for name, about in FORMS.items()
    )
    return (
        '<section>\n<h2 id="forms">Forms of events</h2>\n<p>Chosen by <code>Accept</code>, or by '
        f"<code>format</code> for links.</p>\n<dl>\n{items}\n</dl>\n</section>"
    )


def _parts() -> str:
    shown = "\n".join(
        f'<h3 id="{_short(kind.__name__)}">{_short(kind.__name__).replace("-", " ").capitalize()}</h3>\n'
        f"<p>{_prose(str(schemas()[kind.__name__].get('description', '')))}</p>\n{_fields('Fields', _body(kind))}"
        for kind in _PARTS
    )
    return f'<section>\n<h2 id="parts">Parts of bodies and answers</h2>\n{shown}\n</section>'


def _short(name: str) -> str:
    return {"ReadBody": "next-page", "EventAnswer": "event-of-the-log"}.get(name) or re.sub(
        "(Body|Answer)$", "", name
    ).lower()


def _errors() -> str:
    rows = "\n".join(
        f'<dt id="{each.code}"><code title="{escape(title_of(each.code))}">{each.code}</code> '
        f"<small>{each.status}</small></dt><dd>{_prose((each.__doc__ or '').partition(chr(10))[0])} "
        f"<small>retry: {each.retry}</small></dd>"
        for each in error_classes()
    )
    fields = schemas()["ProblemAnswer"]["properties"]
    described = "\n".join(
        f"<dt><code>{name}</code></dt><dd>{_prose(field['description'])}</dd>"
        for name, field in fields.items()
    )
    return (
        '<section>\n<h2 id="errors">Errors</h2>\n<p>Errors are problem documents (RFC 9457), '
        "<code>application/problem+json</code>, with these fields:</p>\n"
        f"<dl>\n{described}\n</dl>\n<h3>Codes</h3>\n<dl>\n{rows}\n</dl>\n</section>"
    )
