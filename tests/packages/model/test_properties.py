"""Our reader of .properties files against the library that everybody uses."""

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.model.config_key import ConfigError
from moldau.model.properties import decode_properties, read_properties

ALPHABET = st.sampled_from([*list("ab=: \t\\#!\n\r.é"), "\\n", "\\u0041", "\\\n  ", "key", "value"])


@given(st.lists(ALPHABET, max_size=30).map("".join))
def test_every_text_reads_as_the_library_reads_it(text: str) -> None:
    try:
        expected = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(ConfigError, match="Malformed"):
            read_properties(text)
        return
    assert read_properties(text) == expected


def test_a_path_with_backslashes_and_a_list_over_two_lines_are_read() -> None:
    assert read_properties("log.dirs=/a,\\\n  /b\nquota\\:x = C\\\\d") == {"log.dirs": "/a,/b", "quota:x": "C\\d"}


@pytest.mark.parametrize("raw", ["# café\na=é".encode(), "\ufeffa=é".encode(), "# café\na=é".encode("latin-1")])
def test_a_file_in_utf_8_or_in_javas_own_encoding_is_read(raw: bytes) -> None:
    assert read_properties(decode_properties(raw)) == {"a": "é"}


@pytest.mark.parametrize("raw", ["a=b".encode("utf-16"), b"\xe9\0\0", "a=é".encode("utf-16-be")])
def test_a_file_in_another_encoding_is_refused(raw: bytes) -> None:
    with pytest.raises(ConfigError, match="no text in UTF-8 or Latin-1"):
        decode_properties(raw)
