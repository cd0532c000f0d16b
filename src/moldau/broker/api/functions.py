"""Finds the functions of a request's file; the file is imported when the first is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from moldau.broker.network.requests import Outcome
from moldau.wire.apis import APIS

Unbound = Callable[[Any, Any, Any], Outcome]  # Any: each function takes services and a request of its own type
"""A function of a request's file: it takes services, the request and its context."""


def control_of(key: int) -> Unbound:
    """The function that answers ``key`` at a controller, unguarded."""
    return function_of(key, "control")


def function_of(key: int, name: str) -> Unbound:
    """Return the function of that name in the request's file."""
    found: Unbound = getattr(module_of(key), name)
    return found


def module_of(key: int) -> ModuleType:
    """Return the module of a request's file."""
    return import_module(f"moldau.broker.api.{APIS[key].module}")
