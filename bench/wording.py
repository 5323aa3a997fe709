"""Numbers and goals in words, the same on the terminal and on the page."""

from __future__ import annotations

from .results import Verdict


def aim(verdict: Verdict) -> str:
    """What must hold, and what is wanted."""
    if verdict.of == "value":
        return f"≤ {short(verdict.floor)}"
    if verdict.of == "rate":
        return f"≥ {short(verdict.floor)}"
    if verdict.of == "peer":
        return f"{short(verdict.floor)}× → {short(verdict.target)}×"
    return f"{verdict.floor:.0%} → {verdict.target:.0%}"


def of(verdict: Verdict) -> str:
    """Of what the number is, unless the table shows it."""
    if verdict.of == "growth":
        return f"{verdict.number:.0%} left: "
    if verdict.of == "share":
        wanted = "≥" if verdict.reached != "below" else "<"
        return f"{verdict.number:.0%} of {verdict.beside} ({wanted} {verdict.floor:.0%}): "
    return ""


def short(number: float) -> str:
    """Three digits are enough."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if abs(number) >= 10 * size or (size == 1e6 and abs(number) >= size):
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def duration(seconds: float) -> str:
    """`40 s`, `4 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def ms(milliseconds: float | None) -> str:
    """Milliseconds without their unit."""
    return (
        "" if milliseconds is None else short(milliseconds) if milliseconds >= 10 else f"{milliseconds:.2f}"
    )
