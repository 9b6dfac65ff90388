from hypothesis import given
from hypothesis import strategies as st

from qkv.common.unicode import is_well_formed, well_formed

ANY = st.text(st.characters(codec=None, min_codepoint=0x40, max_codepoint=0xE100, exclude_categories=()))


@given(ANY)
def test_a_surrogate_becomes_a_mark_and_everything_else_stays_in_place(text):
    fixed = well_formed(text)
    assert len(fixed) == len(text)
    fixed.encode()
    for new, old in zip(fixed, text, strict=True):
        assert new == ("\ufffd" if "\ud800" <= old <= "\udfff" else old)
    assert is_well_formed(fixed)
    assert is_well_formed(text) == (fixed == text)
