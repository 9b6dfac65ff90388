"""Say before training if the model to start from cannot read the texts: unknown characters, or another language."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from qkv.recipes.default_model import ENCODER
from qkv.recipes.schema import Say
from qkv.tasks.base import Task
from qkv.tokenizers.coverage import coverage
from qkv.tokenizers.text import TextTokenizer

EXAMPLES = 1000  # at the start of the training files
REMEDY = (
    "set model.init=hf:OWNER/NAME to a model of that language, or model.preset=bert-mini to start with random weights "
    "and a tokenizer of your own"
)
COMMON = """
the of and to a in is that for it with as was on i you he be at by not this are have his her but they from or had she an
which we one there my so all
"""
# Of the words of news, novels, reviews and captions in English, 25 to 39 % are common ones, and a word has 1.2 to 1.7
# pieces; in German, French and Vietnamese 0 to 5 %, and 1.9 to 2.3 pieces. Lists of names have few common words too,
# but fewer pieces.
FEWEST_COMMON, MOST_PIECES, LEAST_WORDS = 0.1, 1.7, 50


def tell_coverage(task: Task, tokenizer: TextTokenizer, start: str, say: Say) -> None:
    """Say what the tokenizer of `start`, a model folder or a built-in model, does not know of the training texts."""
    examples = islice(task.examples(task.data.train), EXAMPLES)
    texts = [text for example in examples for text in task.texts(example)]
    found = coverage(tokenizer, texts)
    if said := found.unknown_to(start):
        say(f"{said}: {REMEDY}")
        return
    words, common = [word.strip(".,;:!?\"'()") for text in texts for word in text.lower().split()], set(COMMON.split())
    share = sum(word in common for word in words) / max(len(words), 1)
    others = share < FEWEST_COMMON and found.pieces > MOST_PIECES and len(words) >= LEAST_WORDS
    if others and Path(start).name == ENCODER:
        few = f"{share:.0%} of their words are among the most common English ones"
        say(f"these texts do not look English ({few}), but {ENCODER} knows nothing else: {REMEDY}")
