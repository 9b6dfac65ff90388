import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.common.batch import UNITS, Images, Labelled, Pairs, Tokens, Words, layouts, move, size
from qkv.common.errors import UsageError

SEQUENCES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=6)


@given(SEQUENCES)
def test_packing_and_splitting_give_the_sequences_back(sequences):
    tokens = Tokens.of(sequences, vocab_size=10)
    assert [part.tolist() for part in tokens.layout.split(tokens.ids)] == sequences
    assert tokens.ids.dtype == torch.int64
    assert tokens.segments is None


@given(SEQUENCES)
def test_segments_are_packed_like_the_ids(sequences):
    segments = [[i % 2 for i in range(len(sequence))] for sequence in sequences]
    tokens = Tokens.of(sequences, segments=segments)
    assert [part.tolist() for part in tokens.layout.split(tokens.segments)] == segments


def test_an_empty_batch_is_an_error():
    with pytest.raises(UsageError, match="batch is empty"):
        Tokens.of([])


def test_an_empty_sequence_is_named_by_its_number():
    with pytest.raises(UsageError, match="sequence 1 is empty"):
        Tokens.of([[1], [], [2]])


@pytest.mark.parametrize(("bad", "limit"), [(10, 9), (-1, 9), (12345, 9)])
def test_an_id_outside_the_vocabulary_is_named_with_the_limit(bad, limit):
    with pytest.raises(UsageError) as caught:
        Tokens.of([[0, limit], [3, bad, 4]], vocab_size=limit + 1)
    assert f"sequence 1 holds id {bad}" in str(caught.value)
    assert f"0 to {limit}" in str(caught.value)


def test_the_largest_id_of_the_vocabulary_is_inside():
    assert Tokens.of([[9]], vocab_size=10).ids.tolist() == [9]


@pytest.mark.parametrize("segments", [[[0, 0], [0]], [[0]], [[0], [0], [0]], [[0], [0, 0]]])
def test_segments_of_other_lengths_are_an_error(segments):
    with pytest.raises(UsageError, match="same lengths"):
        Tokens.of([[1], [2]], segments=segments)


def test_the_size_of_a_batch_is_what_a_person_would_count():
    tokens, images = Tokens.of([[1, 2, 3], [4]]), Images(torch.zeros(5, 3, 8, 8))
    assert size(tokens) == (4, "tok")
    assert size(Pairs(tokens, Tokens.of([[1], [2, 3]]))) == (7, "tok")
    assert size(Labelled(tokens, torch.zeros(2))) == (4, "tok")
    assert size(Labelled(images, torch.zeros(5))) == size(images) == (5, "img")
    words = torch.zeros(6, dtype=torch.int64)
    assert size(Words(words, words, words.expand(3, 6).T)) == (6, "words")
    assert size(Words(words.view(2, 3), words[:2], words.view(2, 3))) == (2, "words")
    assert size({"x": torch.zeros(3)}) == (0, "tok")
    assert {"tok", "img", "words"} == set(UNITS)


def test_a_batch_moves_with_its_dicts_dataclasses_and_layouts():
    batch = {"a": Labelled(Tokens.of([[1, 2], [3]]), torch.zeros(2)), "b": 3, "c": None}
    moved = move(batch, "cpu")
    assert moved["b"] == 3
    assert moved["c"] is None
    assert moved["a"].inputs.layout is not batch["a"].inputs.layout
    assert moved["a"].inputs.layout.host_lengths == [2, 1]
    assert [layout.num_rows for layout in layouts(moved)] == [3]
    on_meta = move(batch, "meta")["a"].inputs
    assert on_meta.ids.is_meta
    assert on_meta.layout.offsets.is_meta
    assert on_meta.layout.host_lengths == [2, 1], "known on the host, without asking the device"
