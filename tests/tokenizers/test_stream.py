"""Text as it comes: with any tokenizer, the pieces are those of the whole text, and no character comes in halves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.tokenizers.kinds import KINDS
from qkv.tokenizers.stream import HALF, TextStream
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer

TEXTS = ["The small cat sleeps. Two dogs play!", "Ça va, Zoë? Ein Bär; naïve 日本語 🙂 👩‍👩‍👧", "a\nb  c\td isn't"] * 3
TOKENIZERS = {
    kind: train_tokenizer(
        TEXTS, TokenizerConfig(kind=kind, vocab_size=400, specials="gpt", normalize="none", min_frequency=1)
    )
    for kind in KINDS
}


def streamed(tokenizer: TextTokenizer, ids: list[int], context: list[int]) -> list[str]:
    stream = TextStream(tokenizer, context)
    return [*(stream.add(token) for token in ids), stream.close()]


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_pieces_are_the_whole_text(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    some = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12)
    text = data.draw(st.sampled_from(TEXTS))
    ids = data.draw(some) if kind != "byte-bpe" else tokenizer.encode([text]).ids[0]
    cut = data.draw(st.integers(0, len(ids)))
    before, whole = tokenizer.decode(ids[:cut]), tokenizer.decode(ids)
    if HALF not in before:
        assert "".join(streamed(tokenizer, ids[cut:], ids[:cut])) == whole[len(before) :].rstrip(HALF)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_all_at_once_is_one_after_the_other(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12))
    first, second = (data.draw(st.integers(0, len(ids))) for _ in range(2))
    context, some, rest = (
        ids[: min(first, second)],
        ids[min(first, second) : max(first, second)],
        ids[max(first, second) :],
    )
    one, other = TextStream(tokenizer, context), TextStream(tokenizer, context)
    assert one.add_all(some) == "".join(map(other.add, some))
    assert one.add_all(rest) == "".join(map(other.add, rest))
    assert one.close() == other.close()


@pytest.mark.parametrize("text", ["日本語", "🙂👩‍👩‍👧", "naïve é"])
def test_a_character_comes_when_it_is_complete(text: str) -> None:
    tokenizer = train_tokenizer(["abc"], TokenizerConfig(kind="byte-bpe", vocab_size=300, specials="gpt"))
    ids = tokenizer.encode([text]).ids[0]
    assert len(ids) == len(text.encode())  # a token for each byte
    pieces = streamed(tokenizer, ids, [])
    assert "".join(pieces) == text
    assert not any(HALF in piece for piece in pieces)
    assert sum(map(bool, pieces)) == len(text)


def test_a_character_that_the_end_cuts_is_left_out_and_bytes_before_another_are_marked() -> None:
    tokenizer = TOKENIZERS["byte-bpe"]
    ids = [number for byte in "日".encode()[:2] for number in [_byte(tokenizer, byte)]]
    assert streamed(tokenizer, ids, []) == ["", "", ""]
    (letter,) = tokenizer.encode(["x"]).ids[0]
    assert streamed(tokenizer, [*ids, letter], []) == ["", "", f"{HALF}x", ""]


def test_an_empty_special_token_does_not_begin_the_text_again() -> None:
    """A space is left out at the beginning only, also after tokens that have no text."""
    tokenizer = TOKENIZERS["bpe"]
    end = tokenizer.specials["end"]
    first, second = tokenizer.encode(["The cat"]).ids[0][:1], tokenizer.encode(["x dogs"]).ids[0][-1:]
    assert "".join(streamed(tokenizer, [*first, end, end, *second], [])) == tokenizer.decode([*first, end, *second])


def _byte(tokenizer: TextTokenizer, byte: int) -> int:
    """Find the token of a byte by what it makes of the others: é is 0xC3 0xA9 and so on."""
    from tokenizers.pre_tokenizers import ByteLevel

    table = sorted(ByteLevel.alphabet())
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in printable}
    names |= {b: chr(256 + n) for n, b in enumerate(b for b in range(256) if b not in names)}
    assert sorted(names.values()) == table
    found = tokenizer.id_of(names[byte])
    assert found is not None
    return found
