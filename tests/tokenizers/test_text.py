"""Our tokenizers from files against transformers' own, and what we promise besides."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertTokenizer, GPT2Tokenizer, RobertaTokenizer

from qkv.common.errors import QkvError
from qkv.tokenizers.text import TextTokenizer

TRICKY = [
    "The cat sat on a mat.",
    "",
    "   ",
    "THE Cats!",
    "caf\u00e9 nai\u0308ve \u0130stanbul",
    "\u4e2d\u6587 and \u65e5\u672c\u8a9e",
    "emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 here",
    "tab\tnew\nline\r\nend",
    "non\u00a0breaking\u2003space and zero\u200bwidth",
    "don't stop-me, now...",
    "x" * 150,
    "control\x00\x07 and \ufffd",
    "two  spaces   three",
    "1,234.56 $5 \u20ac7",
    "[MASK] of the [cat] ##s",
    "<|endoftext|> after",
    "dogs\u2028next",
]


@pytest.fixture
def bert_vocabulary(words):
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789$'-[]<>|")
    accented = ["\u00e9", "##\u00e9", "\u4e2d", "\u6587", "caf\u00e9", "Cat", "##S", "C", "T"]
    return list(dict.fromkeys([*words, *letters, *(f"##{c}" for c in letters), *accented]))


def write_vocab_txt(folder, vocabulary, **settings):
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **settings}))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": True},
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
    ],
    ids=str,
)
def test_vocab_txt_gives_the_ids_of_transformers(tmp_path, bert_vocabulary, settings):
    write_vocab_txt(tmp_path, bert_vocabulary, **settings)
    ours, theirs = TextTokenizer.find(tmp_path), BertTokenizer.from_pretrained(tmp_path, **settings)
    assert ours.kind == "WordPiece"
    assert ours.vocab_size == len(bert_vocabulary)
    for text in TRICKY:
        assert ours.encode([text]).ids[0] == theirs(text)["input_ids"], repr(text)


def test_pairs_have_bert_s_template_and_segments(tmp_path, bert_vocabulary):
    write_vocab_txt(tmp_path, bert_vocabulary)
    ours, theirs = TextTokenizer.find(tmp_path), BertTokenizer.from_pretrained(tmp_path)
    found, wanted = ours.encode(["the cat"], ["a dog sat"]), theirs("the cat", "a dog sat")
    assert found.ids[0] == wanted["input_ids"]
    assert found.segments[0] == wanted["token_type_ids"]
    assert sum(found.segments[0]) == 4


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x1d", "\x0b"])
def test_only_a_newline_ends_a_line_of_vocab_txt(tmp_path, words, odd):
    # Real vocabularies hold such characters; every id after one would be off by one.
    write_vocab_txt(tmp_path, [*words, odd, "last"])
    theirs = BertTokenizer.from_pretrained(tmp_path).convert_tokens_to_ids("last")
    assert TextTokenizer.find(tmp_path).id_of("last") == theirs == len(words) + 1


def train_bytes(folder, specials):
    """Train a little byte-level BPE and write GPT-2's two files."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["the cat sat on the mat", "the dogs and the cats don't stop"] * 5, trainer)
    inner.model.save(str(folder))


def test_vocab_json_and_merges_give_the_ids_of_gpt2(tmp_path):
    train_bytes(tmp_path, ["<|endoftext|>"])
    ours, theirs = TextTokenizer.find(tmp_path), GPT2Tokenizer.from_pretrained(tmp_path)
    assert ours.kind == "BPE"
    for text in [*TRICKY, "the cats and dogs"]:
        ids = ours.encode([text]).ids[0]
        assert ids == theirs(text)["input_ids"], repr(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def test_vocab_json_and_merges_give_the_ids_of_roberta(tmp_path):
    train_bytes(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    ours, theirs = TextTokenizer.find(tmp_path), RobertaTokenizer.from_pretrained(tmp_path)
    for text in TRICKY:
        assert ours.encode([text]).ids[0] == theirs(text)["input_ids"], repr(text)
    assert ours.encode(["the cat"], ["a dog"]).ids[0] == theirs("the cat", "a dog")["input_ids"]


def test_roberta_s_mask_between_words_is_transformers(tmp_path):
    train_bytes(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    ours, theirs = TextTokenizer.find(tmp_path), RobertaTokenizer.from_pretrained(tmp_path)
    assert ours.encode(["the <mask> sat"]).ids[0] == theirs("the <mask> sat")["input_ids"]


def test_byte_level_text_comes_back_whole(tmp_path):
    train_bytes(tmp_path, ["<|endoftext|>"])
    ours = TextTokenizer.find(tmp_path)
    for text in TRICKY:
        if "<|endoftext|>" not in text:
            assert ours.decode(ours.encode([text]).ids[0]) == text


def test_no_padding_and_no_truncation_even_if_the_file_asks(tmp_path, wordpiece):
    inner = wordpiece()
    inner.enable_padding(length=10)
    inner.enable_truncation(4)
    inner.save(str(tmp_path / "tokenizer.json"))
    found = TextTokenizer.find(tmp_path).encode(["the cat sat on a mat", "a"])
    assert [len(ids) for ids in found.ids] == [8, 3]


def test_max_length_cuts_and_forgets_again(wordpiece):
    ours = TextTokenizer(wordpiece())
    cut = ours.encode(["the cat sat on a mat"], max_length=4)
    assert cut.ids == [[2, 5, 6, 3]]
    assert len(ours.encode(["the cat sat on a mat"]).ids[0]) == 8


def test_max_length_cuts_the_longer_side_of_a_pair_first(wordpiece):
    cut = TextTokenizer(wordpiece()).encode(["the"], ["a dog sat on a mat"], max_length=6)
    assert len(cut.ids[0]) == 6
    assert cut.ids[0][:3] == [2, 5, 3]


def test_pairs_must_be_as_many_as_texts(wordpiece):
    with pytest.raises((ValueError, QkvError)):
        TextTokenizer(wordpiece()).encode(["a", "b"], ["c"])


def test_decode_leaves_special_tokens_out(wordpiece):
    inner = wordpiece()
    inner.add_special_tokens(["[CLS]", "[SEP]"])
    inner.decoder = decoders.WordPiece()
    ours = TextTokenizer(inner)
    assert ours.decode(ours.encode(["The cats sat!"]).ids[0]) == "the cats sat!"


def test_tokens_have_ids_or_none(wordpiece):
    ours = TextTokenizer(wordpiece())
    assert ours.id_of("cat") == 6
    assert ours.id_of("zebra") is None


@pytest.mark.parametrize(
    ("file", "raw", "wanted"),
    [
        ("tokenizer_config.json", {"model_max_length": 77}, 77),
        ("tokenizer_config.json", {"model_max_length": 1e30}, None),
        ("tokenizer_config.json", {}, None),
        ("sentence_bert_config.json", {"max_seq_length": 31}, 31),
        ("sentence_bert_config.json", {"max_seq_length": None}, None),
    ],
)
def test_the_length_the_folder_allows(tmp_path, wordpiece, file, raw, wanted):
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / file).write_text(json.dumps(raw))
    assert TextTokenizer.find(tmp_path).max_length == wanted


def test_sentence_transformers_limit_goes_first(tmp_path, wordpiece):
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    assert TextTokenizer.find(tmp_path).max_length == 256


def test_a_folder_without_a_tokenizer_has_none(tmp_path):
    assert TextTokenizer.find(tmp_path) is None
    (tmp_path / "vocab.json").write_text("{}")  # without merges.txt it is nothing
    assert TextTokenizer.find(tmp_path) is None


def test_the_fingerprint_survives_save_and_find(tmp_path, wordpiece):
    ours = TextTokenizer(wordpiece(), {"model_max_length": 9})
    ours.save(tmp_path)
    again = TextTokenizer.find(tmp_path)
    assert again.fingerprint == ours.fingerprint
    assert again.max_length == 9
    assert again.encode(TRICKY) == ours.encode(TRICKY)


def test_the_fingerprint_is_that_of_the_ids_not_of_the_batch(wordpiece):
    ours = TextTokenizer(wordpiece())
    before = ours.fingerprint
    ours.encode(["the cat"], max_length=3)
    padded = wordpiece()
    padded.enable_padding()
    assert ours.fingerprint == before == TextTokenizer(padded).fingerprint


def test_the_fingerprint_changes_with_whatever_changes_the_ids(wordpiece, words):
    other_words, added, cased = wordpiece([*words, "more"]), wordpiece(), wordpiece()
    added.add_tokens([AddedToken("new")])
    cased.normalizer = None
    prints = {TextTokenizer(inner).fingerprint for inner in (wordpiece(), other_words, added, cased)}
    assert len(prints) == 4


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", b'{"version": "1.0", "model": '),
        ("tokenizer.json", b"\xff\xfe\x00"),
        ("tokenizer.json", b"{}"),
        ("vocab.txt", b"\xff\xfe\x00"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_folder(tmp_path, file, content):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(QkvError) as caught:
        TextTokenizer.find(tmp_path)
    assert "damaged" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_merges_are_an_error(tmp_path):
    (tmp_path / "vocab.json").write_text("[1, 2")
    (tmp_path / "merges.txt").write_text("a b\n")
    with pytest.raises(QkvError, match="damaged"):
        TextTokenizer.find(tmp_path)


@pytest.mark.parametrize("raw", ["{", "[1]", '"text"'])
@pytest.mark.parametrize("file", ["tokenizer_config.json", "sentence_bert_config.json"])
def test_damaged_settings_are_an_error_that_names_the_file(tmp_path, wordpiece, file, raw):
    wordpiece().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / file).write_text(raw)
    with pytest.raises(QkvError, match=file):
        TextTokenizer.find(tmp_path)


def test_a_vocab_txt_that_is_not_bert_s_names_what_it_lacks(tmp_path, words):
    write_vocab_txt(tmp_path, [word for word in words if word != "[SEP]"])
    with pytest.raises(QkvError, match=r"does not contain \[SEP\]"):
        TextTokenizer.find(tmp_path)
