"""HTML and SVG, made of elements: whatever is put into one is escaped, so nothing from a log can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

_EMPTY = frozenset({"br", "circle", "line", "meta", "path", "rect"})


class Html(str):
    """Markup that is known to be sound."""

    __slots__ = ()


Child = Html | str | int | float | Iterable["Child"] | None


def el(name: str, /, *children: Child, **attributes: object) -> Html:
    """An element; an attribute that is None is left out, `class_` is `class`, and `_` in names is `-`."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY and not children:
        return Html(f"<{name}{told}/>" if name in {"circle", "line", "path", "rect"} else f"<{name}{told}>")
    return Html(f"<{name}{told}>{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Html:
    """The children one after another."""
    return Html("".join(_text(child) for child in children))


def escaped(text: str) -> str:
    """Text as HTML shows it; what would be invisible, or turn the direction of writing, is written out."""
    if not text.isprintable():
        text = "".join(
            char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii")
            for char in text
        )
    return html.escape(text)


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escaped(child)
    if isinstance(child, int | float):
        return f"{child:,}"
    return joined(child)
