"""Sentences: nothing is lost, and the borders that people would draw are drawn."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qkv.data.sentences import ABBREVIATIONS, split_sentences

PIECES = ["Dr", "a", "B", "3", "3.5", ".", "!", "?", "…", "。", '"', "”", ")", " ", "  ", "\n", "\r\n", "\x00", "é"]


@given(st.text() | st.lists(st.sampled_from([*PIECES, "\ud800", "שלום", "👩‍👩‍👧", "\u2028"])).map("".join))
@example("")
@example(" \n ")
@example("A.\n\nB.")
def test_the_pieces_are_the_text_again(text):
    found = split_sentences(text)
    assert "".join(sentence + space for sentence, space in found) == text
    assert all(space == "" or space.isspace() for _, space in found)
    assert all(sentence == sentence.strip() for sentence, _ in found)
    assert all(sentence for sentence, _ in found[1:])


@given(st.lists(st.sampled_from(["It rains.", "Who?", "No!", "He said “go.”", "Well…", "(Yes.)"]), max_size=8))
def test_sentences_that_were_joined_are_found_again(sentences):
    assert [sentence for sentence, _ in split_sentences(" ".join(sentences))] == sentences
    assert [sentence for sentence, _ in split_sentences("\n".join(sentences))] == sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Dr. Smith met J. R. Brown. They left.", ["Dr. Smith met J. R. Brown.", "They left."]),
        ("It costs 3.50 or 4. Pay now!", ["It costs 3.50 or 4. Pay now!"]),
        ("That was in 1999. Then it stopped.", ["That was in 1999.", "Then it stopped."]),
        ("Er kam am 3. Mai, z.B. mit Hrn. Meier. Gut so.", ["Er kam am 3. Mai, z.B. mit Hrn. Meier.", "Gut so."]),
        ("See www.a.de/b.html. Good.", ["See www.a.de/b.html.", "Good."]),
        ("The U.S. Army left at 5 p.m. Sunday.", ["The U.S. Army left at 5 p.m. Sunday."]),
        ("And I. He knew.", ["And I.", "He knew."]),
        ("Wait... what? Yes!", ["Wait... what?", "Yes!"]),
        ("“Go!” he said. “Now.” She went.", ["“Go!” he said.", "“Now.”", "She went."]),
        ("I said no. He left. Plan B. Done", ["I said no.", "He left.", "Plan B. Done"]),
        ("今日は。元気。「はい。」そう", ["今日は。", "元気。", "「はい。」", "そう"]),
        ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("One line\nanother line", ["One line", "another line"]),
        ("  indented. Text. ", ["", "indented.", "Text."]),
    ],
)
def test_borders_as_people_draw_them(text, parts):
    assert [sentence for sentence, _ in split_sentences(text)] == parts


@pytest.mark.parametrize("word", sorted(ABBREVIATIONS))
def test_no_abbreviation_ends_a_sentence(word):
    assert len(split_sentences(f"We saw {word}. Jones there.")) == 1
    assert len(split_sentences(f"We saw {word.title()}. Jones there.")) == 1


def test_a_million_characters_take_no_time():
    text = "word " * 200_000 + "end."
    assert split_sentences(text) == [(text, "")]
    assert len(split_sentences("A be. " * 100_000)) == 100_000
    assert len(split_sentences("." * 1_000_000)) == 1
