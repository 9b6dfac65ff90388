"""A model with fewer tokens gives the scores that the whole model gives to those tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qkv.checkpoints.folder import Folder, read_folder, write_folder
from qkv.checkpoints.hf.generation import GenerationDefaults
from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.compression.vocabulary import prune_vocabulary
from qkv.models import catalogue
from qkv.tokenizers.training import TokenizerConfig, train_tokenizer
from tests.contracts.entries import MODELS, make, pairs, shrink
from tests.tokenizers.test_subset import TEXTS

FIELD = ["the cat sat on the mat", "a small dog"]
SPECIALS = {"bert": "bert", "gpt": "gpt", "t5": "t5"}
NAMES = [
    "bert",
    "bert-own",
    "gpt-own",
    "gpt2",
    "t5-small",
    "t5-1.1-small",
    "transformer-pre",
    "electra-small",
    "rnn-gru",
]


def with_tokenizer(name):
    config = MODELS.get(name) or shrink(catalogue.preset(name))
    family = SPECIALS.get(catalogue.family_of(config), "translate")
    tokenizer = train_tokenizer(
        TEXTS, TokenizerConfig(kind="byte-bpe" if family == "gpt" else "unigram", vocab_size=500, specials=family)
    )
    config = catalogue.override(config, {"vocab_size": tokenizer.vocab_size + 3})  # tables often have spare rows
    return Folder(config, make(config).eval(), tokenizer)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_kept_tokens(name, tmp_path):
    whole = with_tokenizer(name)
    smaller = prune_vocabulary(whole, FIELD)
    assert smaller.config.vocab_size == smaller.tokenizer.vocab_size < whole.tokenizer.vocab_size
    kept = [whole.tokenizer.id_of(smaller.tokenizer.token_of(n)) for n in range(smaller.config.vocab_size)]
    old, new = (folder.tokenizer.encode(FIELD).ids for folder in (whole, smaller))
    assert [[kept[n] for n in row] for row in new] == old

    def scores(folder, ids):
        batch = Tokens.of(ids)
        with torch.no_grad():
            hidden = folder.model(Pairs(batch, batch) if pairs(folder.config) else batch)
            return hidden.states, {head: folder.model.logits(hidden, head) for head in folder.model.heads}

    (states, before), (fewer, after) = scores(whole, old), scores(smaller, new)
    torch.testing.assert_close(fewer, states, rtol=1e-5, atol=1e-6)
    for head, one in after.items():
        other = before[head]
        wanted = other[:, kept] if other.dim() == 2 and other.shape[1] == whole.config.vocab_size else other
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-5)
    for key in ("start_id", "end_id", "pad_id"):
        if getattr(whole.config, key, None) is not None:
            assert kept[getattr(smaller.config, key)] == getattr(whole.config, key)
    write_folder(smaller, tmp_path / "smaller")
    again = read_folder(tmp_path / "smaller")
    assert torch.equal(scores(again, new)[0], fewer)
    assert again.tokenizer.encode(FIELD).ids == new


def test_transformers_reads_model_and_tokenizer(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = shrink(catalogue.preset("bert-base"), heads=["mlm"])
    tokenizer = train_tokenizer(TEXTS, TokenizerConfig(kind="wordpiece", vocab_size=200, specials="bert"))
    config = catalogue.override(config, {"vocab_size": tokenizer.vocab_size})
    whole = Folder(config, make(config).eval(), tokenizer)
    smaller = prune_vocabulary(whole, FIELD)
    write_folder(smaller, tmp_path / "smaller")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "smaller").eval()
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "smaller")(FIELD[0], return_tensors="pt")
    old = tokenizer.encode(FIELD[:1]).ids[0]
    kept = [tokenizer.id_of(smaller.tokenizer.token_of(n)) for n in range(smaller.config.vocab_size)]
    assert [kept[n] for n in ids["input_ids"][0]] == old
    with torch.no_grad():
        found = theirs(**ids).logits[0]
        wanted = whole.model.logits(whole.model(Tokens.of([old])), "mlm")[:, kept]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_prompts_and_generation_keep_their_tokens():
    whole = replace(
        with_tokenizer("gpt2"),
        prefix="weather: ",
        generation=GenerationDefaults({"eos_token_id": [0], "max_new_tokens": 5, "bad_words_ids": [[400]]}),
    )
    smaller = prune_vocabulary(whole, FIELD)
    assert smaller.generation.raw == {"eos_token_id": [0], "max_new_tokens": 5}
    for text in ("weather: ", "the cat"):
        tokens = [
            [folder.tokenizer.token_of(n) for n in folder.tokenizer.encode([text]).ids[0]]
            for folder in (whole, smaller)
        ]
        assert tokens[0] == tokens[1]


def test_a_model_without_tokenizer_is_refused():
    with pytest.raises(UsageError, match="bert has no tokens to remove: it comes without a tokenizer"):
        prune_vocabulary(Folder(MODELS["bert"], make(MODELS["bert"])), FIELD)
    with pytest.raises(UsageError, match="vit has no tokens to remove"):
        prune_vocabulary(Folder(MODELS["vit"], make(MODELS["vit"])), FIELD)
