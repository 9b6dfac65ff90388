"""Word alignment: which source word belongs to which word of the translation, from the decoder's cross-attention.

The model reads source and translation once more while its attention is recorded. Each token of the translation is
aligned with the source token that gets the most attention when it is predicted, averaged over the heads of one layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from qkv.common.batch import Pairs, Tokens
from qkv.insight.capture import capture
from qkv.nn.attention import CrossAttention
from qkv.predict.batching import batches
from qkv.predict.runner import Runner
from qkv.predict.translation import Pair, next_word
from qkv.tokenizers.text import TextTokenizer

Said = tuple[str, list[int], list[int]]  # a source, its ids, and the ids of its translation


def align(model: Runner, said: Sequence[Said], prefix: str = "") -> list[list[Pair]]:
    """Return the aligned pairs of words for each translation, as word numbers from 0; no word of the prefix counts."""
    assert model.tokenizer is not None
    model.check_layers("alignments")
    asked = [number for number, (_, _, ids) in enumerate(said) if ids]
    found: list[list[Pair]] = [[] for _ in said]
    sizes = [len(said[number][1]) + len(said[number][2]) for number in asked]
    for rows in batches(sizes, model.device):
        numbers = [asked[row] for row in rows]
        weights = attention(model, [said[n][1] for n in numbers], [said[n][2] for n in numbers])
        for number, weights_LS in zip(numbers, weights, strict=True):
            text, _, ids = said[number]
            found[number] = _pairs(model.tokenizer, text, ids, weights_LS, prefix)
    return found


@torch.inference_mode()
def attention(model: Runner, sources: list[list[int]], targets: list[list[int]]) -> list[Tensor]:
    """Return the attention to the source when each target token is predicted. Shape of each: [L, S]."""
    start_id = model.config.start_id
    read = [[start_id, *target[:-1]] for target in targets]
    batch = Pairs(Tokens.of(sources, device=model.device), Tokens.of(read, device=model.device))
    crossing = {name for name, module in model.module.named_modules() if isinstance(module, CrossAttention)}
    with capture(model.module) as found:
        model.module(batch)
        found.calls = {key: calls for key, calls in found.calls.items() if key[0] in crossing}
        layers = list(found.weights().values())
    # The layer before the last aligns words best (Garg et al. 2019), but not if it is the first: in the built-in
    # translators, which have two, it finds 60 % of the names that source and translation share, and the last 99 %.
    return [weights_NLS.float().mean(0) for weights_NLS in layers[-2 if len(layers) > 2 else -1]]


def _pairs(tokenizer: TextTokenizer, text: str, ids: list[int], weights_LS: Tensor, prefix: str) -> list[Pair]:
    """Align each token of the translation with a source token, and map both to their words."""
    before, text = next_word(prefix), prefix + text
    window = tokenizer.encode_spans([text])[0][0]
    words = [
        _word_at(text, start) - before if side == 0 and text[start:end].strip() else -1
        for (start, end), side in zip(window.spans, window.sides, strict=True)
    ][: weights_LS.shape[1]]
    real = torch.tensor([word >= 0 for word in words], device=weights_LS.device)
    if not bool(real.any()):
        return []
    best = weights_LS[:, : len(words)].masked_fill(~real, -1.0).argmax(-1).tolist()
    said = zip(best, words_said(tokenizer, ids), strict=True)
    return sorted({(words[source], target) for source, target in said if target >= 0})


def words_said(tokenizer: TextTokenizer, ids: list[int]) -> list[int]:
    """Return the word number of each token, -1 for a token without visible text."""
    found, before = [], ""
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
        found.append(_word_at(text, len(before)) if text[len(before) :].strip() else -1)
        before = text
    return found


def _word_at(text: str, place: int) -> int:
    """Return the number of the word that starts at or after `place`, or contains it."""
    rest = text[place:]
    return next_word(text[: place + len(rest) - len(rest.lstrip())])
