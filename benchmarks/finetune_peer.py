"""Fine-tuning with Hugging Face `transformers`, for finetune_tasks.py: a plain loop, or their Trainer.

AdamW (fused on CUDA), warm-up and a linear schedule, batches of similar length padded to the longest sequence, bf16
autocast on CUDA, texts tokenised in advance. Both sides are scored with qkv's metrics.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from finetune_files import Bench
from torch.optim.lr_scheduler import LambdaLR

from qkv.data.labelled import classified, rated
from qkv.data.questions import questions
from qkv.data.tagged import tagged
from qkv.decoding.spans import best_spans
from qkv.evaluation.answers import AnswerF1, ExactMatch
from qkv.evaluation.classification import F1, Accuracy, Matthews
from qkv.evaluation.correlation import Pearson, Spearman
from qkv.evaluation.entities import EntityF1
from qkv.predict.tag import has_entities

WARMUP, DECAY, CLIP, STRIDE = 0.1, 0.01, 1.0, 128
UNSEEN = -1  # a tag that does not occur in training; only test sentences can have one
POOL = 50  # batches per pool that is sorted by length, as in the Trainer's length grouping
Feature = dict[str, Any]  # input_ids, token_type_ids and the labels


@dataclass
class Side:
    """A tokenizer, a model and its class names."""

    bench: Bench
    tokenizer: Any
    labels: list[str]
    device: torch.device
    model: Any = None


def theirs(bench: Bench, files: Path, minilm: Path, *, seed: int, lr: float, epochs: float, trainer: bool) -> Feature:
    """Fine-tune and score. Returns the scores on dev and test and the seconds."""
    import transformers as hf

    if bench.kind == "embeddings":
        raise ValueError("transformers has no head for cosine similarity: use the task STS-B")
    hf.logging.set_verbosity_error()
    hf.set_seed(seed)
    start = time.perf_counter()
    side = Side(bench, hf.AutoTokenizer.from_pretrained(minilm), _labels(bench, files), _device())
    heads = {"answer": hf.AutoModelForQuestionAnswering, "tag": hf.AutoModelForTokenClassification}
    number = {} if bench.kind == "answer" else {"num_labels": max(1, len(side.labels))}
    head = heads.get(bench.kind, hf.AutoModelForSequenceClassification)
    side.model = head.from_pretrained(minilm, dtype=torch.float32, **number).to(side.device)
    features = [feature for feature, _ in _features(side, files / "train.jsonl")]
    learning = time.perf_counter()
    (_with_trainer if trainer else _with_loop)(side, features, seed, lr, epochs)
    if side.device.type == "cuda":
        torch.cuda.synchronize()
    end = time.perf_counter()
    parts = ("dev", "test")[bench.test == bench.dev :]
    scores = {name: _score(side, files / f"{name}.jsonl") for name in parts}
    return {"dev": scores["test"], **scores, "seconds": end - start, "train_seconds": end - learning}


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _labels(bench: Bench, files: Path) -> list[str]:
    path = [str(files / "train.jsonl")]
    if bench.kind == "classify":
        return sorted({e.labels[0] for e in classified(path)})
    return sorted({tag for e in tagged(path) for tag in e.tags}, key=_outside_first) if bench.kind == "tag" else []


def _outside_first(tag: str) -> tuple[bool, str]:
    return tag != "O", tag


def _features(side: Side, path: Path) -> Iterator[tuple[Feature, Any]]:
    """Yield each sequence with the information needed for scoring."""
    return {"answer": _windows, "tag": _words}.get(side.bench.kind, _texts)(side, path)


def _texts(side: Side, path: Path) -> Iterator[tuple[Feature, Any]]:
    number = side.bench.kind == "regress"
    read: Any = rated if number else classified
    pair = "second" if side.bench.columns.get("second") else None
    examples = list(read([str(path)], text="text", second=pair, label="label"))
    seconds = [e.second for e in examples] if pair else None
    found = side.tokenizer([e.text for e in examples], seconds, truncation=True, max_length=side.bench.max_length)
    for i, e in enumerate(examples):
        gold = e.score if number else e.labels[0]
        asked = float(e.score) if number else side.labels.index(gold) if gold in side.labels else -100
        yield {**_inputs(found, i), "labels": asked}, gold


def _words(side: Side, path: Path) -> Iterator[tuple[Feature, Any]]:
    examples, number = list(tagged([str(path)])), {label: i for i, label in enumerate(side.labels)}
    words = [list(e.words) for e in examples]
    found = side.tokenizer(words, is_split_into_words=True, truncation=True, max_length=side.bench.max_length)
    for i, e in enumerate(examples):
        owners = found.word_ids(i)
        first = [w is not None and w != owners[place - 1] for place, w in enumerate(owners)]
        asked = [number.get(e.tags[w], UNSEEN) if new else -100 for w, new in zip(owners, first, strict=True)]
        yield {**_inputs(found, i), "labels": asked}, e.tags


def _windows(side: Side, path: Path) -> Iterator[tuple[Feature, Any]]:
    examples = list(questions([str(path)]))
    found = side.tokenizer(
        [e.question for e in examples], [e.context for e in examples], truncation="only_second", stride=STRIDE,
        max_length=side.bench.max_length, return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    for i, owner in enumerate(found["overflow_to_sample_mapping"]):
        sides, spans, e = found.sequence_ids(i), found["offset_mapping"][i], examples[owner]
        start, end = 0, 0
        if e.answers:
            a, b = e.answers[0].start, e.answers[0].start + len(e.answers[0].text)
            inside = [t for t, (x, y) in enumerate(spans) if sides[t] == 1 and x < b and y > a]
            if inside and spans[inside[0]][0] <= a and spans[inside[-1]][1] >= b:
                start, end = inside[0], inside[-1]
        yield {**_inputs(found, i), "start_positions": start, "end_positions": end}, (e, sides, spans)


def _inputs(found: Any, number: int) -> Feature:
    return {name: found[name][number] for name in ("input_ids", "token_type_ids")}


def _collate(features: Sequence[Feature]) -> dict[str, torch.Tensor]:
    """Pad to the longest sequence of the batch."""
    longest = max(len(feature["input_ids"]) for feature in features)
    batch = {"attention_mask": torch.tensor([_padded([1] * len(f["input_ids"]), longest, 0) for f in features])}
    for name, value in features[0].items():
        filler = -100 if name == "labels" else 0
        rows = [_padded(f[name], longest, filler) if isinstance(value, list) else f[name] for f in features]
        batch[name] = torch.tensor(rows)
    return batch


def _padded(row: list[int], length: int, filler: int) -> list[int]:
    return row + [filler] * (length - len(row))


def _batches(features: list[Feature], size: int, draw: random.Random) -> list[list[Feature]]:
    """Shuffle, sort pools by length, then shuffle the batches."""
    order = draw.sample(features, len(features))
    pools = [order[i : i + POOL * size] for i in range(0, len(order), POOL * size)]
    rows = [f for pool in pools for f in sorted(pool, key=lambda f: len(f["input_ids"]))]
    batches = [rows[i : i + size] for i in range(0, len(rows), size)]
    draw.shuffle(batches)
    return batches


def _moved(batch: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    if device.type == "cpu":
        return batch
    return {name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in batch.items()}


def _steps(side: Side, features: list[Feature], epochs: float) -> int:
    return max(1, round(epochs * -(-len(features) // side.bench.batch)))


def _with_loop(side: Side, features: list[Feature], seed: int, lr: float, epochs: float) -> None:
    model, device = side.model.train(), side.device
    plain = [p for p in model.parameters() if p.dim() < 2]
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, fused=device.type == "cuda")
    total = _steps(side, features, epochs)
    warmup = max(1, round(WARMUP * total))
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / warmup, (total - step) / max(total - warmup, 1)))
    draw, step = random.Random(seed), 0
    while step < total:
        for rows in _batches(features, side.bench.batch, draw)[: total - step]:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = model(**_moved(_collate(rows), device)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1


def _with_trainer(side: Side, features: list[Feature], seed: int, lr: float, epochs: float) -> None:
    """Train with the Trainer, which needs the package accelerate."""
    trainer_of(
        side.model, features, batch=side.bench.batch, num_train_epochs=epochs, seed=seed, learning_rate=lr,
        weight_decay=DECAY, warmup_steps=round(WARMUP * _steps(side, features, epochs)),
    ).train()  # fmt: skip


def trainer_of(
    model: Any, features: list[Feature], *, batch: int, by_length: bool = True, bf16: bool | None = None, **more: Any
) -> Any:
    """Return a Trainer that logs and saves nothing; by default it uses bf16 on a GPU."""
    import tempfile

    import transformers as hf

    fields, cuda = hf.TrainingArguments.__dataclass_fields__, _device().type == "cuda"
    if by_length:
        old = "group_by_length" in fields
        more |= {"group_by_length": True} if old else {"train_sampling_strategy": "group_by_length"}
    settings = hf.TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=batch, use_cpu=not cuda, report_to=[],
        bf16=cuda if bf16 is None else bf16, save_strategy="no", logging_strategy="no", disable_tqdm=True, **more,
    )  # fmt: skip
    return hf.Trainer(model=model, args=settings, train_dataset=features, data_collator=_collate)


@torch.no_grad()
def _score(side: Side, path: Path) -> dict[str, float]:
    """Predict in order of length and score with qkv's metrics."""
    rows, model = list(_features(side, path)), side.model.eval()
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]["input_ids"]))
    found: list[torch.Tensor] = [torch.empty(0)] * len(rows)
    for i in range(0, len(order), 128):
        some = order[i : i + 128]
        inputs = [{name: rows[n][0][name] for name in ("input_ids", "token_type_ids")} for n in some]
        with torch.autocast(side.device.type, torch.bfloat16, enabled=side.device.type == "cuda"):
            said = model(**_moved(_collate(inputs), side.device))
        scores = said.logits if "logits" in said else torch.stack([said.start_logits, said.end_logits], -1)
        for n, row in zip(some, scores.float().cpu(), strict=True):
            found[n] = row[: len(rows[n][0]["input_ids"])] if row.dim() > 1 else row
    metrics, said_and_gold = ANSWERED[side.bench.kind](side, rows, found)
    for prediction, gold in said_and_gold:
        for metric in metrics:
            metric.add(prediction, gold)
    return {result.name: result.value for result in (metric.result() for metric in metrics)}


def _classes(side: Side, rows: list[Any], found: list[torch.Tensor]) -> tuple[list[Any], Iterator[tuple[Any, Any]]]:
    said = ((side.labels[int(s.argmax())], gold) for s, (_, gold) in zip(found, rows, strict=True))
    return [Accuracy(), F1(average="macro"), Matthews()], said


def _numbers(side: Side, rows: list[Any], found: list[torch.Tensor]) -> tuple[list[Any], Iterator[tuple[Any, Any]]]:
    del side
    return [Pearson(), Spearman()], ((float(s), gold) for s, (_, gold) in zip(found, rows, strict=True))


def _tags(side: Side, rows: list[Any], found: list[torch.Tensor]) -> tuple[list[Any], Iterator[tuple[Any, Any]]]:
    def said() -> Iterator[tuple[Any, Any]]:
        for scores, (feature, gold) in zip(found, rows, strict=True):
            asked = [place for place, label in enumerate(feature["labels"]) if label != -100]
            tags = [side.labels[int(scores[place].argmax())] for place in asked]
            yield tags + [side.labels[0]] * (len(gold) - len(tags)), gold

    if has_entities(side.labels):
        return [EntityF1()], said()
    return [Accuracy()], (both for tags, gold in said() for both in zip(tags, gold, strict=True))


def _answers(side: Side, rows: list[Any], found: list[torch.Tensor]) -> tuple[list[Any], Iterator[tuple[Any, Any]]]:
    """Return the span with the highest score over all windows of a context."""
    del side
    best: dict[str, tuple[float, str]] = {}
    golds: dict[str, list[str]] = {}
    for scores, (_, (example, sides, spans)) in zip(found, rows, strict=True):
        golds[example.id] = [answer.text for answer in example.answers]
        for score, first, last in best_spans(scores, torch.tensor([s == 1 for s in sides]), 1):
            text = example.context[spans[first][0] : spans[last][1]]
            best[example.id] = max(best.get(example.id, (float("-inf"), "")), (score, text))
    return [ExactMatch(), AnswerF1()], ((best.get(name, (0.0, ""))[1], gold) for name, gold in golds.items())


ANSWERED: dict[str, Callable[..., tuple[list[Any], Iterator[tuple[Any, Any]]]]] = {
    "classify": _classes, "regress": _numbers, "tag": _tags, "answer": _answers,
}  # fmt: skip
