"""What is said of regular expressions is what RE2/J 1.8, Kafka 4.3.1's library for them, says."""

from __future__ import annotations

import pytest

from moldau.admin.classic.re2 import why_invalid

VALID = r"""
^*
$*
|a
a||b
a{1000}
a{,2}
a{2,}
a{x}
a{2}?
a??
[]a]
[a-z-9]
[[a]]
[a-]
[--a]
[[:^alpha:]]
[^\pN\d]
\0
\07
\12
\x41
\x{10FFFF}
\p{Greek}
\p{^Lu}
\Q..\E
\Q..
\A\z\b\B
\_\-
(?i)a
(?ims-U:a)
(?)a
(?P<name>a)(?<other>b)
"""
INVALID = r"""
( missing closing )
((a) missing closing )
) regexp/syntax: internal error
a** invalid nested repetition operator
a{2}{3} invalid nested repetition operator
a??? invalid nested repetition operator
{* invalid nested repetition operator
* missing argument to repetition operator
|* missing argument to repetition operator
(*) missing argument to repetition operator
a{1001} invalid repeat count
a{2,1} invalid repeat count
[ missing closing ]
[] missing closing ]
[a\] missing closing ]
[[:alpha:] missing closing ]
[z-a] invalid character class range
[[:foo:]] invalid character class range
\p invalid character class range
\p{Elvish} invalid character class range
[a-\d] invalid escape sequence
[\b] invalid escape sequence
\1 invalid escape sequence
\x4 invalid escape sequence
\x{110000} invalid escape sequence
\C invalid escape sequence
\Z invalid escape sequence
\ trailing backslash at end of expression
(?P<n invalid named capture
(?P<> invalid named capture
(?<=a) invalid named capture
(?P<n>a)(?P<n>b) duplicate capture group name
(?=a) invalid or unsupported Perl syntax
(?x)a invalid or unsupported Perl syntax
(?i- invalid or unsupported Perl syntax
(?-)a invalid or unsupported Perl syntax
"""


@pytest.mark.parametrize("text", VALID.split())
def test_an_expression_of_re2_is_valid(text: str) -> None:
    assert why_invalid(text) is None


@pytest.mark.parametrize("line", INVALID.strip().splitlines())
def test_what_is_wrong_is_told_in_the_words_of_re2j(line: str) -> None:
    text, _, why = line.partition(" ")
    assert why_invalid(text) == why
