"""Whether a regular expression has RE2's syntax, and what Kafka's library for it (RE2/J) says of one that has not.

Nothing is matched here. Source: the syntax page of RE2; what is said was compared with RE2/J 1.8 of Kafka 4.3.1.
"""

from __future__ import annotations

import re

_LARGEST_REPEAT = 1000
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_NAMED = re.compile(r"\(\?P?<")
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_FLAGS = re.compile(r"\(\?(?:[imsU]*|[imsU]*-[imsU]+)([:)])")
_SIMPLE_ESCAPE = re.compile(r"\\(?:0[0-7]{0,2}|[1-7][0-7]{1,2}|x[0-9a-fA-F]{2}|[afnrtv]|[^0-9A-Za-z])", re.DOTALL)
_LONG_ESCAPE = re.compile(r"\\x\{([0-9a-fA-F]+)\}")
_LETTERS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"
_TABLES = """
Any C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian
Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian
Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin Lepcha
Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki
Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra
Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan
Tifinagh Ugaritic Unknown Vai Yi
"""

BAD_RANGE = "invalid character class range"
BAD_ESCAPE = "invalid escape sequence"
BAD_NAME = "invalid named capture"
NAME_TWICE = "duplicate capture group name"
NOT_SUPPORTED = "invalid or unsupported Perl syntax"
REPEATED_TWICE = "invalid nested repetition operator"
BAD_COUNT = "invalid repeat count"
NO_BRACKET = "missing closing ]"
NO_PARENTHESIS = "missing closing )"
NOT_OPEN = "regexp/syntax: internal error"
NOTHING_TO_REPEAT = "missing argument to repetition operator"
TRAILING_BACKSLASH = "trailing backslash at end of expression"


class _Wrong(Exception):
    """The text is no expression; its argument says why."""


def why_invalid(text: str) -> str | None:
    """What is wrong with an expression, in the words of RE2/J; None when it is well."""
    try:
        _Check(text).run()
    except _Wrong as error:
        return str(error)
    return None


class _Check:
    """Walks over an expression once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.operand = False  # whether there is something that a star may repeat
        self.repeated = False  # whether what stands before is a repetition itself
        self.names: set[str] = set()

    def run(self) -> None:
        while self.at < len(self.text):
            before, self.repeated = self.repeated, False
            self._step(self.text[self.at], before)
        if self.depth:
            raise _Wrong(NO_PARENTHESIS)

    def _step(self, mark: str, repeated: bool) -> None:
        if mark == "(":
            self._open()
        elif mark == ")":
            if not self.depth:
                raise _Wrong(NOT_OPEN)
            self.depth -= 1
            self._past(1)
        elif mark == "|":
            self.at += 1
            self.operand = False
        elif mark in "*+?":
            self._repeat(1, repeated)
        elif mark == "{" and (count := _REPEAT.match(self.text, self.at)) is not None:
            least = int(count[1])
            most = least if count[2] is None else int(count[3] or -1)
            if max(least, most) > _LARGEST_REPEAT or 0 <= most < least:
                raise _Wrong(BAD_COUNT)
            self._repeat(count.end() - self.at, repeated)
        elif mark == "[":
            self._class()
        elif mark == "\\":
            self._backslash()
        else:
            self._past(1)
            self.repeated = mark == "{"  # one that begins no count may not be repeated either

    def _past(self, count: int) -> None:
        self.at += count
        self.operand = True

    def _repeat(self, count: int, repeated: bool) -> None:
        if repeated:
            raise _Wrong(REPEATED_TWICE)
        if not self.operand:
            raise _Wrong(NOTHING_TO_REPEAT)
        self.at += count
        if self.text.startswith("?", self.at):
            self.at += 1
        self.repeated = True

    def _open(self) -> None:
        if (named := _NAMED.match(self.text, self.at)) is not None:
            end = self.text.find(">", named.end())
            name = self.text[named.end() : end]
            if end < 0 or not _NAME.match(name):
                raise _Wrong(BAD_NAME)
            if name in self.names:
                raise _Wrong(NAME_TWICE)
            self.names.add(name)
            self.at = end + 1
        elif self.text.startswith("(?", self.at):
            flags = _FLAGS.match(self.text, self.at)
            if flags is None:
                raise _Wrong(NOT_SUPPORTED)
            self.at = flags.end()
            if flags[1] == ")":
                return
        else:
            self.at += 1
        self.depth += 1
        self.operand = False

    def _backslash(self) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        if after == "Q":
            end = self.text.find("\\E", self.at + 2)
            written = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            self.operand = self.operand or bool(written)
        elif after and after in "AbBzdDsSwW":
            self._past(2)
        elif after and after in "pP":
            self._table()
            self.operand = True
        else:
            self._escape()
            self.operand = True

    def _table(self) -> None:
        """A class of Unicode: \\pL, \\p{Greek}, \\p{^Lu}."""
        start = self.at + 2
        name, end = self.text[start : start + 1], start + 1
        if name == "{":
            end = self.text.find("}", start) + 1
            name = self.text[start + 1 : end - 1] if end else ""
        if not name or name.removeprefix("^") not in _TABLES.split():
            raise _Wrong(BAD_RANGE)
        self.at = end

    def _escape(self) -> int:
        """The code of the one character that is written with a backslash."""
        if self.at + 1 == len(self.text):
            raise _Wrong(TRAILING_BACKSLASH)
        if (long := _LONG_ESCAPE.match(self.text, self.at)) is not None and int(long[1], 16) <= 0x10FFFF:
            self.at = long.end()
            return int(long[1], 16)
        short = _SIMPLE_ESCAPE.match(self.text, self.at)
        if short is None:
            raise _Wrong(BAD_ESCAPE)
        self.at = short.end()
        body = short[0][1:]
        if body in _LETTERS:
            return _LETTERS[body]
        if body.startswith("x"):
            return int(body[1:], 16)
        return int(body, 8) if body.isdecimal() else ord(body)

    def _class(self) -> None:
        self.at += 2 if self.text.startswith("[^", self.at) else 1
        first = True
        while first or not self.text.startswith("]", self.at):
            first = False
            self._class_item()
        self._past(1)

    def _class_item(self) -> None:
        text = self.text
        end = text.find(":]", self.at) if text.startswith("[:", self.at) else -1
        if end >= 0:
            if text[self.at + 2 : end].removeprefix("^") not in _POSIX.split():
                raise _Wrong(BAD_RANGE)
            self.at = end + 2
        elif text.startswith(("\\p", "\\P"), self.at):
            self._table()
        elif text[self.at : self.at + 1] == "\\" and text[self.at + 1 : self.at + 2] in tuple("dDsSwW"):
            self.at += 2
        else:
            low = self._class_character()
            if text.startswith("-", self.at) and not text.startswith("-]", self.at):
                self.at += 1
                if self._class_character() < low:
                    raise _Wrong(BAD_RANGE)

    def _class_character(self) -> int:
        if self.at >= len(self.text):
            raise _Wrong(NO_BRACKET)
        if self.text[self.at] == "\\":
            return self._escape()
        self.at += 1
        return ord(self.text[self.at - 1])
