"""A log over HTTP: an ASGI application over the public API of `AsyncEventStore`, and a server for it."""

from .application import Application, app
from .tokens import Tokens

__all__ = ["Application", "Tokens", "app"]
