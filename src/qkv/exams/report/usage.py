"""How to use a model: a few lines each for the shell, for Python and, if it can read the folder, for `transformers`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qkv.checkpoints.folder import OURS, config_json
from qkv.checkpoints.text_tasks import TRANSLATE, TextTask
from qkv.predict import Model

TEXT = "Your text here."
# What each verb takes: in the shell, and in Python.
VERBS = {
    "classify": (f"'{TEXT}'", f'["{TEXT}"]'),
    "tag": (f"'{TEXT}'", f'["{TEXT}"]'),
    "answer": ("'Your question?' --context-text 'The text to read.'", '["Your question?"], ["The text to read."]'),
    "fill": ("'Your text with a [MASK].'", '["Your text with a [MASK]."]'),
    "translate": (f"'{TEXT}'", f'["{TEXT}"]'),
    "generate": ("'The beginning of a text'", '["The beginning of a text"]'),
    "embed": (f"'{TEXT}'", f'["{TEXT}"]'),
}
PAIRS = ("--pair 'The first text.' 'The second text.'", '["The first text."], ["The second text."]')
PIPELINES = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "LMHeadModel": "text-generation",
}
DECODERS = ("MarianMTModel", "ForConditionalGeneration")


@dataclass(frozen=True)
class Usage:
    """Some lines to type, and where."""

    where: str
    lines: str


def usage(model: Model, name: str, *, pairs: bool = False) -> tuple[Usage, ...]:
    """Return how to use a model.

    Args:
        model: the model.
        name: its folder, or the name of a built-in model.
        pairs: whether it classifies pairs of texts.
    """
    verb = next((verb for verb in model.verbs if verb in VERBS), None)
    found = []
    if verb is not None:
        shell, python = PAIRS if pairs and verb == "classify" else VERBS[verb]
        if verb == "translate" and (task := task_to_name(model.text_tasks)):
            shell, python = f"{shell} --task {shlex.quote(task)}", f"{python}, task={task!r}"
        found.append(Usage("Shell", f"qkv {verb} {shlex.quote(name)} {shell}"))
        lines = ["import qkv", f"model = qkv.load({name!r})", f"print(model.{verb}({python}))"]
        found.append(Usage("Python", "\n".join(lines)))
    if theirs := _transformers(model, name):
        found.append(Usage("transformers", theirs))
    return tuple(found)


def _transformers(model: Model, name: str) -> str:
    """Return the lines for transformers, or nothing if it cannot read the folder."""
    raw = config_json(model.config, model.labels, multi_label=model.multi_label)
    kind = next(iter(raw.get("architectures", ())), "")
    if not kind or str(raw["model_type"]).startswith(OURS) or model.tokenizer is None or not Path(name).is_dir():
        return ""
    pipeline = next((known for end, known in PIPELINES.items() if kind.endswith(end)), None)
    if pipeline is not None and raw.get("problem_type") != "regression":
        text = f"Your text with a {_mask(model)}." if pipeline == "fill-mask" else TEXT
        call = f'print(pipeline("{pipeline}", {name!r})("{text}"))'
        return f"from transformers import pipeline\n{call}"
    start = f"from transformers import AutoTokenizer, {kind}\nfolder = {name!r}"
    parts = f"tokenizer, model = AutoTokenizer.from_pretrained(folder), {kind}.from_pretrained(folder)"
    if kind.endswith(DECODERS):
        ids = f'model.generate(**tokenizer({_with_prefix(model)}, return_tensors="pt"))'
        return f"{start}\n{parts}\nprint(tokenizer.batch_decode({ids}, skip_special_tokens=True))"
    return f'{start}\n{parts}\nprint(model(**tokenizer("{TEXT}", return_tensors="pt")))'


def task_to_name(tasks: Mapping[str, TextTask]) -> str:
    """Return a text-to-text task to name in a command, or "" if the model has none, or one that is the default."""
    known = [name for name, task in tasks.items() if task.kind]
    able = [name for name in known if tasks[name].kind == TRANSLATE]
    return "" if len(able) == 1 or not known else (able or known)[0]


def _with_prefix(model: Model) -> str:
    """Return the text as a Python string, with the prefix of the task that a T5 is used for."""
    tasks = model.text_tasks
    known = [name for name, task in tasks.items() if task.kind]
    name = task_to_name(tasks) or next((one for one in known if tasks[one].kind == TRANSLATE), "")
    return json.dumps((tasks[name].prefix if name else "") + TEXT, ensure_ascii=False)


def _mask(model: Model) -> str:
    """Return the mask as the tokenizer writes it; transformers accepts no other spelling."""
    assert model.tokenizer is not None
    number = model.tokenizer.specials.get("mask")
    return "[MASK]" if number is None else model.tokenizer.token_of(number) or "[MASK]"
