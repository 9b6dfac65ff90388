"""How much of some texts a tokenizer knows."""

from __future__ import annotations

from qkv.tokenizers.coverage import MANY, coverage
from qkv.tokenizers.text import TextTokenizer
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer


def test_characters_of_unknown_tokens_are_counted(wordpiece) -> None:
    found = coverage(TextTokenizer(wordpiece()), ["the cat sat", "the 😀😀 cat"])
    assert found.unknown == 2 / 17
    assert (found.examples, found.words, found.pieces) == (("😀😀",), 6, 1.0)
    assert found.unknown_to("tiny") == "12% of the characters of these texts are unknown to tiny, such as 😀😀"


def test_the_most_frequent_parts_come_first(wordpiece) -> None:
    found = coverage(TextTokenizer(wordpiece()), ["猫 犬 the", "犬 猫 犬", "x"])
    assert found.examples == ("犬", "猫", "x")


def test_few_unknown_characters_are_not_worth_a_word(wordpiece) -> None:
    found = coverage(TextTokenizer(wordpiece()), ["the cat sat on the mat ." * 2, "☃"])
    assert 0 < found.unknown < MANY
    assert found.unknown_to("tiny") == ""


def test_nothing_is_unknown_to_bytes_and_in_no_text() -> None:
    config = TokenizerConfig(kind="byte-bpe", vocab_size=300, specials="gpt")
    tokenizer = train_tokenizer(["a cat"], config)
    assert coverage(tokenizer, ["犬 😀"]).unknown == 0
    assert coverage(tokenizer, ["", " "]).unknown == coverage(tokenizer, []).unknown == 0


def test_only_a_sample_is_read(wordpiece) -> None:
    many = ["the cat"] * 100_000 + ["犬" * 10_000_000]
    assert coverage(TextTokenizer(wordpiece()), many).words <= 400
