"""Regular expressions of Java for names of topics, as expressions of Python's that match the same names.

A name has only letters, digits and ``.``, ``_``, ``-`` of ASCII, so that each class of characters becomes the set of
those that are in it. What cannot be said in Python's syntax (a look behind of no fixed width, names of scripts and
blocks) is refused as if it were wrong. Read next: topics_named.py. Source: documentation of java.util.regex.Pattern.
"""

from __future__ import annotations

import re
import string
import unicodedata

ALL = frozenset(map(chr, range(128)))
_LETTERS, _DIGITS = frozenset(string.ascii_letters), frozenset(string.digits)
_WORD, _SPACE = _LETTERS | _DIGITS | {"_"}, frozenset(" \t\n\x0b\f\r")
_GRAPH = frozenset(chr(code) for code in range(33, 127))
_SETS = {"d": _DIGITS, "s": _SPACE, "w": _WORD, "h": frozenset(" \t"), "v": frozenset("\n\x0b\f\r")}
_PROPERTIES = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": ALL,
    "Alpha": _LETTERS,
    "Digit": _DIGITS,
    "Alnum": _LETTERS | _DIGITS,
    "Punct": frozenset(string.punctuation),
    "Graph": _GRAPH,
    "Print": _GRAPH | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": ALL - _GRAPH - {" "},
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACE,
    "IsAlphabetic": _LETTERS,
    "IsLetter": _LETTERS,
    "IsDigit": _DIGITS,
    "IsLowercase": frozenset(string.ascii_lowercase),
    "IsUppercase": frozenset(string.ascii_uppercase),
    "IsPunctuation": frozenset(one for one in ALL if unicodedata.category(one).startswith("P")),
    "IsWhite_Space": _SPACE,
    "javaLowerCase": frozenset(string.ascii_lowercase),
    "javaUpperCase": frozenset(string.ascii_uppercase),
    "javaLetter": _LETTERS,
    "javaDigit": _DIGITS,
    "javaLetterOrDigit": _LETTERS | _DIGITS,
}
_CATEGORIES = """
L Lu Ll Lt Lm Lo M Mn Me Mc N Nd Nl No Z Zs Zl Zp C Cc Cf Co Cs Cn P Pd Ps Pe Pc Po Pi Pf S Sm Sc Sk So LC L1
"""
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_NUMBER = re.compile(r"\{(\d+)(,?)(\d*)\}")
_FLAGS = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_OPENINGS = ("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_LARGEST = 2**31 - 1
_NOTHING = "(?!)"


class NotRegex(ValueError):
    """The text is no regular expression of Java's."""


def java_pattern(text: str) -> re.Pattern[str]:
    """The expression, to be matched with names of topics; NotRegex when it is none."""
    try:
        return re.compile(_Translation(_unquoted(text)).run(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise NotRegex(str(error)) from None


def _unquoted(text: str) -> str:
    r"""The text with what stands between \Q and \E escaped one by one."""
    out, at = [], 0
    while at < len(text):
        if text.startswith(r"\Q", at):
            end = text.find(r"\E", at + 2)
            quoted = text[at + 2 :] if end < 0 else text[at + 2 : end]
            out += [one if one.isalnum() or not one.isascii() else f"\\{one}" for one in quoted]
            at = len(text) if end < 0 else end + 2
        elif text[at] == "\\" and at + 1 < len(text):
            out.append(text[at : at + 2])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _set(members: frozenset[str]) -> str:
    """A class of Python's of these characters."""
    return "[" + "".join(map(re.escape, sorted(members))) + "]" if members else _NOTHING


class _Translation:
    """Walks over an expression once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False
        self._comments = False
        self._groups = 0
        self._open: set[int] = set()
        self._names: dict[str, int] = {}
        self._looks_behind = False

    def run(self) -> str:
        """The expression in Python's syntax."""
        out = self._alternatives()
        if self._at < len(self._text):
            raise NotRegex("a ) without its (")
        return out

    def _peek(self) -> str:
        """The next character that counts, "" at the end."""
        while self._comments and self._at < len(self._text):
            if self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text[self._at] in _SPACE:
                self._at += 1
            else:
                break
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        out = []
        while (letter := self._peek()) and letter not in "|)":
            if letter in "*+?":
                raise NotRegex(f"nothing before {letter}")
            atom = "" if letter == "{" else self._atom()
            if atom is None:
                continue  # flags, of what follows
            atom = f"(?:{atom})"
            out.append(self._repeated(f"(?i:{atom})" if self._ignores_case else atom))
        return "".join(out)

    def _atom(self) -> str | None:
        letter = self._peek()
        if letter == "(":
            return self._group()
        if letter == "[":
            self._at += 1
            return _set(self._class())
        self._at += 1
        if letter == "\\":
            return self._escape()
        if letter in ".^$":
            return letter
        return re.escape(letter)

    def _repeated(self, atom: str) -> str:
        letter = self._peek()
        if letter and letter in "*+?":
            self._at += 1
            count = letter
        elif letter == "{":
            match = _NUMBER.match(self._text, self._at)
            if match is None:
                raise NotRegex("a { that counts nothing")
            low, high = int(match[1]), int(match[3] or match[1])
            if not low <= high <= _LARGEST:
                raise NotRegex("numbers that cannot be")
            self._at = match.end()
            count = f"{{{low}{match[2]}{match[3] and high}}}"
        else:
            return atom
        if (how := self._peek()) and how in "?+":
            self._at += 1
            count += how
        return atom + count

    # -- groups

    def _group(self) -> str | None:
        text, at = self._text, self._at
        if not text.startswith("(?", at):
            return self._counted("(", at + 1)
        if (flags := _FLAGS.match(text, at)) is not None and flags[0] != "(?:":
            return self._flags(flags)
        if (named := _NAMED.match(text, at)) is not None:
            if named[1] in self._names:
                raise NotRegex("a name of two groups")
            self._names[named[1]] = self._groups + 1
            return self._counted(f"(?P<{named[1]}>", named.end())
        opening = next((one for one in sorted(_OPENINGS, reverse=True) if text.startswith(one, at)), None)
        if opening is None:
            raise NotRegex("no such group")
        return self._enclosed(opening, at + len(opening))

    def _enclosed(self, opening: str, begin: int) -> str:
        self._at = begin
        before = self._ignores_case, self._comments, self._looks_behind
        self._looks_behind |= opening.startswith(("(?<=", "(?<!"))
        inner = self._alternatives()
        if self._peek() != ")":
            raise NotRegex("a ( without its )")
        self._at += 1
        self._ignores_case, self._comments, self._looks_behind = before
        return f"{opening}{inner})"

    def _counted(self, opening: str, begin: int) -> str:
        """A group that has a number."""
        self._groups += 1
        number = self._groups
        self._open.add(number)
        found = self._enclosed(opening, begin)
        self._open.discard(number)
        return found

    def _flags(self, match: re.Match[str]) -> str | None:
        before = self._ignores_case, self._comments
        for letters, holds in ((match[1], True), (match[2] or "", False)):
            self._ignores_case = holds if "i" in letters else self._ignores_case
            self._comments = holds if "x" in letters else self._comments
        self._at = match.end()
        if match[3] == ")":
            return None
        found = self._enclosed("(?:", match.end())
        self._ignores_case, self._comments = before
        return found

    # -- escapes

    def _escape(self) -> str:
        """What stands after a backslash."""
        letter = self._text[self._at : self._at + 1]
        if letter in ("1", "2", "3", "4", "5", "6", "7", "8", "9"):
            return self._reference()
        simple = {"b": r"\b", "B": r"\B", "A": r"\A", "G": r"\A", "Z": r"\Z", "z": r"\Z", "R": r"[\n\x0b\f\r]"}
        if letter in simple and letter:
            self._at += 1
            return simple[letter]
        if letter == "X":
            self._at += 1
            return "."
        if letter == "k":
            match = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>").match(self._text, self._at)
            if match is None or match[1] not in self._names:
                raise NotRegex("a reference to no group")
            self._at = match.end()
            return self._reference_to(self._names[match[1]])
        return _set(self._escaped_set())

    def _reference(self) -> str:
        number = int(self._text[self._at])
        self._at += 1
        while (more := self._text[self._at : self._at + 1]).isdigit() and number * 10 + int(more) <= self._groups:
            number = number * 10 + int(more)
            self._at += 1
        return self._reference_to(number)

    def _reference_to(self, number: int) -> str:
        if self._looks_behind:
            raise NotRegex("a look behind of no greatest width")
        if number > self._groups or number in self._open:
            return _NOTHING  # a group that has matched nothing yet
        return f"(?:\\{number})"

    def _escaped_set(self) -> frozenset[str]:
        letter = self._text[self._at : self._at + 1]
        if letter and letter.lower() in _SETS:
            self._at += 1
            found = _SETS[letter.lower()]
            return found if letter.islower() else ALL - found
        if letter and letter in "pP":
            self._at += 1
            found = self._property()
            return found if letter == "p" else ALL - found
        return frozenset({self._escaped_letter()}) & ALL

    def _escaped_letter(self) -> str:
        letter = self._text[self._at : self._at + 1]
        self._at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        forms = {"x": r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}", "u": r"([0-9a-fA-F]{4})", "0": r"([0-3]?[0-7]{1,2})"}
        if letter in forms:
            match = re.compile(forms[letter]).match(self._text, self._at)
            if match is None:
                raise NotRegex("an escape without its number")
            self._at = match.end()
            code = int(match[match.lastindex or 1], 8 if letter == "0" else 16)
            if code > 0x10FFFF:
                raise NotRegex("no character")
            return chr(code)
        if letter == "c" and self._at < len(self._text):
            self._at += 1
            return chr(ord(self._text[self._at - 1]) ^ 64)
        if not letter or letter in string.ascii_letters + string.digits:
            raise NotRegex("no such escape")
        return letter

    def _property(self) -> frozenset[str]:
        match = re.compile(r"\{([^}]*)\}|(.)").match(self._text, self._at)
        if match is None:
            raise NotRegex("a property without a name")
        self._at = match.end()
        name = match[1] if match[2] is None else match[2]
        if name in _PROPERTIES:
            return _PROPERTIES[name]
        name = name.removeprefix("general_category=").removeprefix("gc=").removeprefix("Is")
        if name not in _CATEGORIES.split():
            raise NotRegex("no such property")
        kinds = {"LC": ("Lu", "Ll", "Lt"), "L1": ("L", "M", "N", "P", "S", "Z", "C")}.get(name, (name,))
        return frozenset(one for one in ALL if unicodedata.category(one).startswith(kinds))

    # -- classes of characters

    def _class(self) -> frozenset[str]:
        """The characters of a class of which the [ has been read."""
        negated = self._peek() == "^"
        self._at += negated
        found = self._operand(first=True)
        while self._text.startswith("&&", self._at):
            while self._peek() == "&":
                self._at += 1
            found &= self._operand(first=False)
        if self._peek() != "]":
            raise NotRegex("a [ without its ]")
        self._at += 1
        return ALL - found if negated else found

    def _operand(self, *, first: bool) -> frozenset[str]:
        """What stands up to the next && or the end of the class."""
        found: frozenset[str] = frozenset()
        empty = first
        while letter := self._peek():
            if letter == "]" and not empty:
                break
            if self._text.startswith("&&", self._at):
                break
            empty = False
            if letter == "[":
                self._at += 1
                found |= self._class()
            else:
                found |= self._members()
        return found if not self._ignores_case else _both_cases(found)

    def _members(self) -> frozenset[str]:
        letter = self._peek()
        self._at += 1
        if letter == "\\":
            following = self._text[self._at : self._at + 1]
            if following and (following.lower() in _SETS or following in "pPR"):
                return self._escaped_set()
            letter = self._escaped_letter()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", "[", ""):
            return frozenset({letter}) & ALL
        self._at += 1
        last = self._peek()
        self._at += 1
        if last == "\\":
            last = self._escaped_letter()
        if last < letter:
            raise NotRegex("a range from behind")
        return frozenset(one for one in ALL if letter <= one <= last)


def _both_cases(found: frozenset[str]) -> frozenset[str]:
    return found | {one.swapcase() for one in found}
