"""The verbs that look inside a model: look, explain, heads and layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qkv.insight.explanation import Explanations
from qkv.insight.head_patterns import HeadNumbers
from qkv.insight.look import Look
from qkv.predict.explain import explain
from qkv.predict.heads import heads
from qkv.predict.layers import Layers, layers
from qkv.predict.look import look
from qkv.predict.runner import Runner


class Inspection(Runner):
    """The part of a model's verbs that shows how it comes to its answers."""

    def look(self, text: str, target: str | None = None, **options: Any) -> Look:
        """Look inside: the attention of every layer and head for one input, and what each layer would answer.

        Args:
            text: a text; for a model of images, the path of an image.
            target: for a translator, the translation; None looks at the model's own. For an encoder, the second text of
                a pair.
            options: of the search for the model's own translation; see `translate`.

        Returns:
            A `Look`. It computes weights when you ask for them, shows itself in a notebook, and `save("look.html")`
            writes all of it into one file.
        """
        return look(self, text, target, name=getattr(self, "place", None), **options)

    def explain(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        of: str | None = None,
        verb: str | None = None,
        steps: int | None = None,
        each: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Explanations:
        """Show the words behind a label, a tag, an answer, a fill-in, a translation or the next word.

        Each word's effect is measured by integrated gradients and by leaving the word out. The result prints its
        numbers, shows itself in a notebook, and `save("page.html")` writes a page.

        Args:
            texts: a text or a list of them; for a model that answers questions, the questions.
            pairs: the second text of each pair, or the context of each question.
            of: explain this label, word, translation or piece of a context instead of what the model says.
            verb: classify, tag, answer, fill, translate or next, for a model that can do several.
            steps: points of the integral. None takes as many as the completeness check needs, at most 384.
            each: explain each word of a translation by itself, given the words before it.
            progress: called with the number of texts when they are done.

        Returns:
            Explanations: one for each answer, in the order of the texts. A text with three entities has three.
        """
        first = [texts] if isinstance(texts, str) else texts
        second = [pairs] if isinstance(pairs, str) else pairs
        return explain(self, first, second, of=of, verb=verb, steps=steps, each=each, progress=progress)

    def heads(self, texts: str | Sequence[str]) -> list[HeadNumbers]:
        """Measure what each attention head does: entropy, distance, and which tokens it looks at.

        A translator reads the texts and its own translations of them.
        """
        return heads(self, [texts] if isinstance(texts, str) else texts)

    def layers(self, texts: str | Sequence[str], compare: Runner | None = None) -> Layers:
        """Measure how the representations of texts change from layer to layer.

        Args:
            texts: a text or a list of them; the more, the better.
            compare: another model, such as this one before fine-tuning: `similarity` then compares its layers (columns)
                with those of this model (rows).
        """
        return layers(self, [texts] if isinstance(texts, str) else texts, compare)
