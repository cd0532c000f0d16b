"""Our reader of .properties files against the library that everybody uses."""

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.model.config_key import ConfigError
from moldau.model.properties import read_properties

ALPHABET = st.sampled_from(list("ab=: \t\\#!\n\r.é") + ["\\n", "\\u0041", "\\\n  ", "key", "value"])


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
