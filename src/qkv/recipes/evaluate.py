"""`qkv evaluate MODEL DATA`: the metrics that fit the model's head, as the data streams by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from qkv.common.errors import UsageError, unknown
from qkv.data.examples import Classified, Question
from qkv.data.files import expand
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.decoding.spans import best_span
from qkv.evaluation.answers import AnswerF1, ExactMatch
from qkv.evaluation.classification import F1, Accuracy, Matthews, MultiLabelF1
from qkv.evaluation.correlation import MeanSquaredError, Pearson, Spearman
from qkv.evaluation.entities import EntityF1
from qkv.evaluation.language import Perplexity
from qkv.evaluation.score import Score
from qkv.evaluation.translation import Bleu, Chrf
from qkv.evaluation.word_files import score_file
from qkv.evaluation.words import Vectors
from qkv.predict import Model
from qkv.training.config import DataConfig
from qkv.training.tasks.base import chunks
from qkv.training.tasks.classify import ClassifyTask, RegressTask
from qkv.training.tasks.language import LanguageTask
from qkv.training.tasks.translate import pairs

CHUNK = 512  # examples that are answered at a time: memory does not grow with the data
Evaluator = Callable[[Model, Sequence[str], DataConfig, Callable[[int], None]], list[Score]]


def evaluate(
    model: Model, paths: Sequence[str], data: DataConfig | None = None, progress: Callable[[int], None] | None = None
) -> list[Score]:
    """Score a model on files."""
    return evaluator_of(model)(model, paths, data or DataConfig(), progress or (lambda _: None))


def evaluator_of(model: Model) -> Evaluator:
    """Choose by the head."""
    heads = set(getattr(model.config, "heads", ()))
    if getattr(model.module, "decoder", None) is not None and "lm" in heads:
        return _translation
    table: dict[str, Evaluator] = {
        "classify": _classes,
        "regress": _numbers,
        "tag": _tags,
        "span": _answers,
        "lm": _language,
        "context": _words,
    }
    for head, evaluator in table.items():
        if head in heads:
            return evaluator
    raise UsageError(f"no evaluation for a model with the heads {', '.join(sorted(heads)) or 'none'}")


def _translation(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    metrics = [Bleu(), Bleu(lowercase=True), Chrf()]
    for chunk in chunks(pairs(paths, data), CHUNK):
        found = model.translate([source for source, _ in chunk])
        for text, (_, reference) in zip(found, chunk, strict=True):
            for metric in metrics:
                metric.add(text, [reference])
        progress(len(chunk))
    return [metric.result() for metric in metrics]


def _classes(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    if data.separator:
        return _class_sets(model, paths, data, progress)
    metrics: list[Any] = [Accuracy(), F1(average="macro"), Matthews()]
    names = _names(model)
    for example, scores in _scored(model, ClassifyTask().examples(paths, data), "classify", progress):
        if len(_known(example, names)) != 1:
            got = f"{example.where}: {len(example.labels)} labels where the model gives one"
            raise UsageError(f"{got}; for a model that gives several say --set separator=,")
        for metric in metrics:
            metric.add(names[int(scores.argmax())], example.labels[0])
    return [metric.result() for metric in metrics]


def _class_sets(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    """Any number of classes for each example: those that the model holds for more likely than not."""
    metrics: list[Any] = [MultiLabelF1(average="micro"), MultiLabelF1(average="macro"), Accuracy(name="exact-match")]
    names = _names(model)
    for example, scores in _scored(model, ClassifyTask().examples(paths, data), "classify", progress):
        said = {name for name, score in zip(names, scores.tolist(), strict=True) if score > 0}
        for metric in metrics:
            metric.add(said, _known(example, names))
    return [metric.result() for metric in metrics]


def _names(model: Model) -> tuple[str, ...]:
    return model.labels or tuple(str(number) for number in range(model.config.num_labels))


def _known(example: Classified, names: Sequence[str]) -> set[str]:
    """Return the labels of an example; one that the model cannot give would count as its mistake."""
    for label in example.labels:
        if label not in names:
            raise UsageError(f"{example.where}: {unknown('label', label, names)}")
    return set(example.labels)


def _numbers(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    metrics: list[Any] = [Pearson(), Spearman(), MeanSquaredError()]
    for example, score in _scored(model, RegressTask().examples(paths, data), "regress", progress):
        for metric in metrics:
            metric.add(float(score), example.score)
    return [metric.result() for metric in metrics]


def _scored(
    model: Model, examples: Iterable[Any], head: str, progress: Callable[[int], None]
) -> Iterator[tuple[Any, torch.Tensor]]:
    """Score texts, or pairs of texts, as they stream by."""
    for chunk in chunks(examples, CHUNK):
        second = None if any(example.second is None for example in chunk) else [example.second for example in chunk]
        encoded = model.encode([example.text for example in chunk], second)
        yield from zip(chunk, model.logits(encoded.ids, segments=encoded.segments, head=head), strict=True)
        progress(len(chunk))


def _words(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    """One score for each file of analogies or of pairs."""
    del data
    if model.tokenizer is None or model.tokenizer.kind != "WordLevel":
        raise UsageError("word vectors are asked for whole words: a folder with a tokenizer of words is needed")
    table: Any = model.module.inputs
    special = set(model.tokenizer.specials.values())
    found = {row: model.tokenizer.token_of(row) for row in range(table.num_embeddings) if row not in special}
    words = {row: word for row, word in found.items() if word is not None}
    vectors = Vectors(list(words.values()), table.weight.detach().float().cpu().numpy()[list(words)])
    return [score_file(path, vectors, progress) for path in expand(paths)]


def _tags(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    del data
    metrics: list[Any] = [EntityF1()]
    for chunk in chunks(tagged(list(paths)), CHUNK):
        assert model.tokenizer is not None
        found = model.tokenizer.encode_words([e.words for e in chunk], max_length=model.config.max_length)
        scored = model.logits(found.ids)
        for example, words, scores in zip(chunk, found.words, scored, strict=True):
            best = scores.argmax(-1).tolist()
            tags = ["O"] * len(example.words)  # a word that was cut off, or gave no token, is outside
            for token in reversed(range(len(words))):
                if words[token] >= 0:
                    tags[words[token]] = model.labels[best[token]]
            for metric in metrics:
                metric.add(tags, example.tags)
        progress(len(chunk))
    return [metric.result() for metric in metrics]


def _answers(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    """Score the best span over all windows of each context."""
    metrics: list[Any] = [ExactMatch(), AnswerF1()]
    limit = min(data.max_length if data.max_length != DataConfig().max_length else 384, model.config.max_length)
    for chunk in chunks(questions(list(paths)), 64):
        for example, said in zip(chunk, answers(model, chunk, limit), strict=True):
            for metric in metrics:
                metric.add(said, [answer.text for answer in example.answers])
        progress(len(chunk))
    return [metric.result() for metric in metrics]


def answers(model: Model, asked: Sequence[Question], limit: int) -> list[str]:
    """Answer questions from their contexts, in the contexts' own characters."""
    if model.tokenizer is None:
        raise UsageError("answers are read from text, and this model has no tokenizer")
    texts, contexts = [q.question for q in asked], [q.context for q in asked]
    found = model.tokenizer.encode_spans(texts, contexts, max_length=limit, stride=min(128, limit // 4))
    owners = [number for number, windows in enumerate(found) for _ in windows]
    flat = [window for windows in found for window in windows]
    best: dict[int, tuple[float, str]] = {}
    scored = model.logits([window.ids for window in flat], segments=[window.segments for window in flat], head="span")
    for number, window, scores in zip(owners, flat, scored, strict=True):
        allowed = torch.tensor([side == 1 for side in window.sides], device=scores.device)
        span = best_span(scores, allowed)
        if span is None:
            continue
        text = contexts[number][window.spans[span.first][0] : window.spans[span.last][1]]
        if number not in best or span.score > best[number][0]:
            best[number] = (span.score, text)
    return [best[number][1] if number in best else "" for number in range(len(asked))]


def _language(model: Model, paths: Sequence[str], data: DataConfig, progress: Callable[[int], None]) -> list[Score]:
    """Long documents are read in windows that follow one another: every token but the first is asked for once."""
    metric = Perplexity()
    if model.tokenizer is None:
        raise UsageError("perplexity is measured on text, and this model has no tokenizer")
    for chunk in chunks(LanguageTask().texts(paths, data), 16):
        for text, ids in zip(chunk, model.tokenizer.encode(chunk).ids, strict=True):
            nll = sum(_surprise(model, ids[i : i + model.config.max_length + 1]) for i in _starts(model, ids))
            if len(ids) > 1:
                metric.add(nll, len(ids) - 1, len(text.split()), len(text.encode()))
        progress(len(chunk))
    return [metric.result(unit=unit) for unit in ("token", "word", "byte")]


def _starts(model: Model, ids: Sequence[int]) -> range:
    return range(0, len(ids) - 1, model.config.max_length)


def _surprise(model: Model, ids: Sequence[int]) -> float:
    """-log p of all tokens but the first, each after those before it."""
    log_p = model.logits([ids[:-1]])[0].float().log_softmax(-1)
    return -float(log_p.gather(-1, torch.tensor(ids[1:], device=log_p.device).unsqueeze(-1)).sum())
