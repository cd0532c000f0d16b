"""Java's .properties format, read: keys, values, comments, continued lines, escapes.

Our own because a node reads one such file at start and the ready-made library costs 40 ms and 6 MB there; tests hold
this reader to that library. Format: java.util.Properties.load.
"""

from __future__ import annotations

import codecs
import re

from moldau.model.config_key import ConfigError

_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*[ \t\f=:]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
MALFORMED = "Malformed \\uxxxx encoding."
"""What Java says of \\u without four hexadecimal digits."""
_MEANING = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def decode_properties(raw: bytes) -> str:
    r"""The text of such a file: UTF-8, with or without a byte order mark, or else Latin-1, as Java reads all of them.
    ConfigError when it is no text.

    >>> decode_properties("# é".encode()), decode_properties(b"# \xe9")
    ('# é', '# é')
    """
    try:
        return raw.decode("utf-8-sig")  # editors put the mark first
    except UnicodeDecodeError:
        if b"\0" in raw or raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise ConfigError("it is no text in UTF-8 or Latin-1; write it in one of these") from None
        return raw.decode("latin-1")


def read_properties(text: str) -> dict[str, str]:
    r"""Keys and values of a properties text; the last of equal keys wins. ConfigError for one that is no such text.

    >>> read_properties("a=1\n# note\nb : two \\\n   words")
    {'a': '1', 'b': 'two words'}
    """
    found = {}
    for line in _logical_lines(text):
        match = _KEY_END.search(line)
        end = match.end() - 1 if match else len(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        found[_unescape(line[:end])] = _unescape(rest)
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    continued: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if continued is None and (not line or line[0] in "#!"):
            continue
        line = (continued or "") + line
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            continued = line[:-1]
            continue
        continued = None
        if line:
            lines.append(line)
    if continued:
        lines.append(continued)
    return lines


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_meaning, text)


def _meaning(found: re.Match[str]) -> str:
    if len(found[1]) == 5:
        return chr(int(found[1][1:], 16))
    if found[1] == "u":
        raise ConfigError(MALFORMED)
    return _MEANING.get(found[1], found[1])
