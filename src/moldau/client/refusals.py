"""What a client raises where no response can say it: nobody answered, or who answered refused the whole."""

from __future__ import annotations

from moldau.model import Code


class Unreachable(ConnectionError):
    """Nobody answered in time; the text says who was tried and what came of it."""


class NoController(Unreachable):
    """No controller has answered in time whether it is there, and nothing else was asked of it."""

    def __init__(self, waited_ms: int, why: str | None = None) -> None:
        """``why``: what a broker says of it."""
        super().__init__(f"no controller is active ({why or f'none answers within {waited_ms / 1000:g} s'})")


class Refused(Exception):
    """A refusal where no response can carry it: no coordinator was named, or a blocking call has no value to return."""

    def __init__(self, code: Code, what: str, message: str | None = None) -> None:
        """``message``: the words of who refused."""
        super().__init__(f"{what}: {code.name}")
        self.code = code
        self.message = message
