"""Which token plays which role."""

import pytest
from tokenizers import Tokenizer, models

from qkv.tokenizers.text import TextTokenizer


def with_tokens(*tokens, **settings):
    return TextTokenizer(Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)})), settings)


@pytest.mark.parametrize(
    ("tokens", "wanted"),
    [
        # BERT
        (
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            {"pad": 0, "unk": 1, "start": 2, "cls": 2, "end": 3, "sep": 3, "mask": 4},
        ),
        # RoBERTa and BART
        (
            ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
            {"start": 0, "cls": 0, "pad": 1, "end": 2, "sep": 2, "unk": 3, "mask": 4},
        ),
        # T5 and Marian: the decoder starts with <pad>
        (["<pad>", "</s>", "<unk>"], {"pad": 0, "start": 0, "end": 1, "sep": 1, "unk": 2}),
        (["<|endoftext|>", "the"], {"start": 0, "end": 0}),
        (["the", "cat"], {}),
        (["<pad>"], {"pad": 0}),
    ],
    ids=["bert", "roberta", "t5", "gpt", "none", "pad alone"],
)
def test_roles_by_their_known_spellings(tokens, wanted):
    assert with_tokens(*tokens).specials == wanted


def test_settings_go_before_spellings():
    tokens = ["<s>", "<|begin|>", "<|end|>", "</s>"]
    ours = with_tokens(
        *tokens, bos_token="<|begin|>", eos_token={"content": "<|end|>", "lstrip": False}, pad_token=None
    )
    assert ours.specials["start"] == 1
    assert ours.specials["end"] == 2
    assert "pad" not in ours.specials


def test_a_setting_that_names_no_token_is_passed_over():
    assert with_tokens("<s>", bos_token="<gone>").specials["start"] == 0


def test_sentinels_are_counted_from_the_first():
    tokens = ["<extra_id_2>", "<extra_id_1>", "<extra_id_0>", "<extra_id_4>"]
    assert with_tokens(*tokens).sentinels == [2, 1, 0]
    assert with_tokens("the").sentinels == []


def test_tokens_and_ids():
    ours = with_tokens("the", "cat")
    assert ours.token_of(1) == "cat"
    assert ours.token_of(9) is None
