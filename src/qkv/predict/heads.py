"""What each attention head does while a model reads some texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.insight.head_patterns import HeadNumbers, measure_heads
from qkv.models.skeleton import EncoderDecoder
from qkv.predict.batching import batches, pack
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts, readable
from qkv.predict.translate import check_translator, translate
from qkv.predict.translation import cut_texts
from qkv.predict.verbs import tokenizer_for

SEPARATORS = ("sep", "end")


def heads(model: Runner, texts: Sequence[str]) -> list[HeadNumbers]:
    """Measure each head; see `Model.heads`."""
    model.check_layers("heads")
    if not check_texts("heads", texts):
        raise UsageError("heads are measured on texts: give at least one")
    specials = tokenizer_for(model, "heads").specials
    marks = {number for role, number in specials.items() if role in SEPARATORS}
    return measure_heads(model.module, text_batches(model, texts, targets=True), marks)


def text_batches(model: Runner, texts: Sequence[str], *, targets: bool) -> Iterator[Tokens | Pairs]:
    """Yield texts as batches; with `targets`, a translator also gets its own translations, sentence by sentence."""
    if targets and isinstance(model.module, EncoderDecoder) and "lm" in model.module.heads:
        yield from _translations(model, texts)
        return
    encoded = model.encode(texts)
    segments = encoded.segments if getattr(model.config, "num_segments", 0) > 1 else None
    if not all(encoded.ids):
        raise UsageError("a text is empty: this model needs at least one token")
    for rows in batches([len(ids) for ids in encoded.ids], model.device):
        yield pack(rows, encoded.ids, None, segments, model.device)


def _translations(model: Runner, texts: Sequence[str]) -> Iterator[Pairs]:
    tokenizer = check_translator(model)
    pieces = [piece for some in cut_texts(tokenizer, readable(texts), model.max_length) for piece in some if piece.ids]
    if not pieces:
        raise UsageError("the texts are empty: there is nothing to translate")
    said = translate(model, [piece.text for piece in pieces], beam=1)
    targets = [
        [model.config.start_id, *(i for token in one.tokens[:-1] if (i := tokenizer.id_of(token)) is not None)]
        for one in said
    ]
    sizes = [len(piece.ids) + len(target) for piece, target in zip(pieces, targets, strict=True)]
    for rows in batches(sizes, model.device):
        batch = pack(rows, [piece.ids for piece in pieces], targets, None, model.device)
        assert isinstance(batch, Pairs)
        yield batch


def same_tokens(model: Runner, length: int) -> Tokens:
    """Return a batch in which every place has the same token, so that only positions differ."""
    specials = model.tokenizer.specials if model.tokenizer else {}
    token = specials.get("mask", specials.get("unk", 0))
    limit = min(length, model.max_length or length)
    return Tokens.of([[token] * limit], device=model.device)
