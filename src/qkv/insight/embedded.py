"""Run a model from rows of its token table instead of token ids, so that a gradient can reach them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qkv.common.batch import Pairs, Tokens
from qkv.common.errors import UsageError
from qkv.common.outputs import Hidden
from qkv.models.seq2seq_rnn import RecurrentSeq2Seq
from qkv.models.skeleton import EncoderDecoder, Transformer
from qkv.nn.attention import PassContext
from qkv.nn.embeddings import TextEmbeddings


def token_rows(model: nn.Module, ids: Tensor) -> Tensor:
    """Look tokens up. Shape: [T] -> [T, E]."""
    return _table(model)(ids)


def states_from(model: nn.Module, batch: Tokens | Pairs, rows: Tensor) -> Hidden:
    """Compute the states of every token, of every target token for `Pairs`, from the rows of its input.

    Args:
        model: a Transformer or a recurrent encoder-decoder.
        batch: what it reads; only its layouts, segments and targets count.
        rows: a row for each input token. Shape: [T, E].
    """
    source = batch.source if isinstance(batch, Pairs) else batch
    if isinstance(model, RecurrentSeq2Seq):
        return _recurrent(model, batch, source, rows)
    context = PassContext.of(source.layout)
    x = _embeddings(model).complete(rows, source, context.place)
    if isinstance(model, EncoderDecoder):
        memory = Hidden(model.encoder(x, context), source.layout)
        return model.decode(batch.target, memory) if isinstance(batch, Pairs) else memory
    assert isinstance(model, Transformer)
    return Hidden(model.stack(x, context), source.layout)


def _recurrent(model: RecurrentSeq2Seq, batch: Tokens | Pairs, source: Tokens, rows: Tensor) -> Hidden:
    # cuDNN's recurrent kernels have no backward pass in eval mode.
    with torch.backends.cudnn.flags(enabled=False):
        states, last = model.encoder(rows, source.layout)
        memory = Hidden(states, source.layout)
        if not isinstance(batch, Pairs):
            return memory
        return model.decode(batch.target, memory, model.decoder.begin(last))[0]


def _table(model: nn.Module) -> nn.Embedding:
    return model.token if isinstance(model, RecurrentSeq2Seq) else _embeddings(model).token


def _embeddings(model: nn.Module) -> TextEmbeddings:
    found = model.embeddings if isinstance(model, Transformer | EncoderDecoder) else None
    if not isinstance(found, TextEmbeddings):
        raise UsageError(f"{type(model).__name__} does not read tokens through layers that could be explained")
    return found
