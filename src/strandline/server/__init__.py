"""A log over HTTP: an ASGI application over the public API of `AsyncEventStore`, and a server for it."""

from .application import Application, app

__all__ = ["Application", "app"]
