"""What is said when a cluster refuses something."""

from __future__ import annotations

from moldau.admin.advice import advised
from moldau.model import Code


def test_a_refusal_is_one_line_whatever_the_name_holds() -> None:
    """`moldau topic create` wrote the ends of lines of a name as they are: half of it stood in a line of its own."""
    said = advised(Code.INVALID_TOPIC_EXCEPTION, "topic a\nb\x1b[2J", "Topic name is invalid: 'a\nb\x1b[2J'")
    assert said == (
        r"topic a\nb\x1b[2J: INVALID_TOPIC_EXCEPTION: Topic name is invalid: 'a\nb\x1b[2J'"
        " (letters, digits, '.', '_' and '-' make a name, 249 at most)"
    )
    assert advised(Code.UNKNOWN_SERVER_ERROR, "topic a\nb") == r"topic a\nb: UNKNOWN_SERVER_ERROR"
