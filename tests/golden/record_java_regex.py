"""Records what Java makes of regular expressions, in java-regex.tsv: the expression, and which of NAMES it matches.

Run it again with `python -m tests.golden.record_java_regex` (needs javac). Expressions are put together at random of
PIECES, always the same. Read next: tests/packages/admin/test_java_regex.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
TARGET = HERE / "java-regex.tsv"
NAMES = ("foo-1", "foo", "f", "bar.x", "Bar_2", "a", "aa", "aab", "x1-", "FOO-1", "b.b.b", "z")
PIECES = r"""
f o a b x 1 - . _ .* .+ foo bar [a-f] [^f] [a-z&&[^f]] [foo[bar]] [^a-c[x]] [a-z&&b-d&&[^c]] [\w&&[^\d]] []
[^]x] []a] [a-] [-a] [z-a] [a-\d] \d \D \w \W \s \S \h \H \v \V \R \b \B \A \Z \z \G \Q.\E \Q- \E \E \x2d
\x{2d} \u002d \055 \cA \y \k<n> \1 \2 \p{Lower} \p{Alpha} \P{Alnum} \p{L} \pL \p{IsAlphabetic} \p{Punct}
\p{Nosuch} \p{javaUpperCase} ( ) (?: (?<n> (?= (?! (?> (?<= (?<! (?i) (?i: (?-i) (?x) (?s-m: (?P<n> (?# | | )
) ) * + ? *? +? ?? *+ ++ ?+ {2} {1,} {0,3} {1,2}? {2,1} {x} {,2} { } ] [ && \ ^ $ # [a# \.
"""
COUNT = 4000


def expressions() -> list[str]:
    """The expressions that are asked about."""
    random = Random(12)
    return ["".join(random.choices(PIECES.split(), k=random.randint(1, 6))) for _ in range(COUNT)]


def main() -> None:
    """Ask, and write the file."""
    asked = expressions()
    with TemporaryDirectory() as classes:
        subprocess.run(["javac", "-d", classes, HERE / "JavaRegex.java"], check=True)
        said = subprocess.run(
            ["java", "-cp", classes, "JavaRegex", *NAMES],
            input="\n".join(asked) + "\n", stdout=subprocess.PIPE, text=True, check=True,
        ).stdout.split()  # fmt: skip
    assert len(said) == len(asked), f"{len(said)} answers to {len(asked)} expressions"
    TARGET.write_text("".join(f"{one}\t{answer}\n" for one, answer in zip(asked, said, strict=True)))


if __name__ == "__main__":
    main()
