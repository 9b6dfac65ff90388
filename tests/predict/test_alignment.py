"""Alignments: attention against its formula, and from tokens to words."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import qkv
from qkv.nn.attention import CrossAttention
from qkv.predict import alignment
from qkv.predict.alignment import align, attention
from tests.predict.conftest import make_translator

SOURCE = "The small cat sleeps."
SAID = "Le petit chat dort."


def ids_of(model, *texts):
    return [ids[:-1] for ids in model.encode(texts).ids]


@pytest.mark.parametrize(("depth", "used"), [(1, 0), (2, 1), (3, 1), (4, 2)])
@torch.no_grad()
def test_attention_is_the_formula_of_the_layer_before_the_last_but_not_of_the_first(depth, used):
    transformer = make_translator("transformer-tiny", num_decoder_layers=depth)
    (source,), (target,) = transformer.encode([SOURCE]).ids, ids_of(transformer, SAID)
    seen = []
    layers = [module for module in transformer.module.modules() if isinstance(module, CrossAttention)]
    assert len(layers) == depth
    hook = layers[used].register_forward_hook(
        lambda module, args, _: seen.append((module, args[0], args[1].memory.states))
    )
    (found,) = attention(transformer, [source], [target])
    hook.remove()
    module, x_LD, memory_SD = seen[0][0], seen[0][1].clone(), seen[0][2].clone()
    q = module.q(x_LD).unflatten(-1, (module.num_heads, -1)).transpose(0, 1)
    k = module.kv(memory_SD).chunk(2, -1)[0].unflatten(-1, (module.num_heads, -1)).transpose(0, 1)
    wanted = (q @ k.transpose(1, 2) * module.scale).softmax(-1).mean(0)
    assert found.shape == (len(target), len(source))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_attention_of_the_recurrent_network_makes_its_context():
    model = make_translator("rnn-small")
    (source,), (target,) = model.encode([SOURCE]).ids, ids_of(model, SAID)
    contexts, memories = [], []

    def watch(_module, args, out):
        contexts.append(out[0])
        memories.append(args[1])

    hook = model.module.decoder.attention.register_forward_hook(watch)
    (found,) = attention(model, [source], [target])
    hook.remove()
    assert found.shape == (len(target), len(source))
    torch.testing.assert_close(found.sum(-1), torch.ones(len(target)))
    torch.testing.assert_close(found @ memories[0], torch.cat(contexts), rtol=1e-4, atol=1e-4)
    assert not model.module.decoder.attention._forward_hooks


def test_neighbours_do_not_change_the_attention(transformer):
    sources, targets = transformer.encode([SOURCE, "We eat."]).ids, ids_of(transformer, SAID, "Nous")
    together = attention(transformer, sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        torch.testing.assert_close(attention(transformer, [source], [target])[0], found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "char", "wordpiece"])
def test_tokens_are_bound_to_their_words(monkeypatch, kind):
    model = make_translator("transformer-tiny", kind=kind)
    source, said = "The small  cat sleeps", "Le petit chat dort"
    (ids,), (target,) = model.encode([source]).ids, ids_of(model, said)
    spans = model.tokenizer.encode_spans([source])[0][0].spans

    def diagonal(_model, _sources, targets):
        """Each token of a word attends to the first character of the source's word of the same number."""
        weights = torch.zeros(len(targets[0]), len(ids))
        weights[:, -1] = 0.9  # the end token takes much, and is not a word
        firsts = [0, 4, 11, 15]
        for row in range(len(targets[0])):
            text = model.tokenizer.decode(targets[0][: row + 1])
            word = len(text.split()) - 1
            token = next(t for t, (a, b) in enumerate(spans) if a <= firsts[word] < b and source[a:b].strip())
            weights[row, token] = 0.1
        return [weights]

    monkeypatch.setattr(alignment, "attention", diagonal)
    (found,) = align(model, [(source, ids, target)])
    assert found == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_nothing_said_is_bound_to_nothing(transformer):
    assert align(transformer, [(SOURCE, transformer.encode([SOURCE]).ids[0], [])]) == [[]]


def test_every_translator_aligns_words_that_there_are(translator):
    texts = [SOURCE, "", "We eat. " * 30, "Two dogs."]
    for text, one in zip(texts, translator.translate(texts, alignments=True, max_length=9, nbest=2), strict=True):
        for each in (one, *one.others):
            pairs = [tuple(map(int, pair.split("-"))) for pair in each.pharaoh.split()]
            assert pairs == each.alignment == sorted(set(pairs))
            assert all(a < len(text.split()) and b < len(each.text.split()) for a, b in pairs)


@pytest.mark.parametrize("threads", [2, 8])
def test_many_threads_align_with_one_model(translator, threads):
    texts = [SOURCE, "We eat.", "Two dogs play in the snow."] * 15

    def ask(text):
        return translator.translate([text], alignments=True, max_length=9)[0].alignment

    wanted = [ask(text) for text in texts]
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(ask, texts)) == wanted


@pytest.mark.parametrize("name", ["en-de", "en-fr"])
def test_the_built_in_translators_align_a_name_with_itself(name):
    texts = ["Tom sold his car.", "Does Tom know that?", "We went to the cinema with Tom.", "Tom lives in Boston."]
    for text, found in zip(texts, qkv.load(name, device="cpu").translate(texts, alignments=True), strict=True):
        words, said = ([word.strip(".,?!") for word in line.split()] for line in (text, found.text))
        assert (words.index("Tom"), said.index("Tom")) in found.alignment, found
