"""The verbs of a model: classify, tag, answer, fill, embed, translate, generate, score and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np
from torch import Tensor

from qkv.evaluation.words import Vectors
from qkv.predict.answer import Answer, answer, doubts
from qkv.predict.batching import Ids
from qkv.predict.classify import Label, classify
from qkv.predict.embed import embed
from qkv.predict.fill import Choice, fill
from qkv.predict.generate import generate
from qkv.predict.generated import Generated
from qkv.predict.images import chances_of_images
from qkv.predict.inspection import Inspection
from qkv.predict.likelihood import log_probs
from qkv.predict.score import Likelihood, score
from qkv.predict.tag import Entity, has_entities, tag
from qkv.predict.translate import stream, translate
from qkv.predict.verbs import names_of, verbs
from qkv.predict.words import named_vectors
from qkv.predict.zero_shot import zero_shot

LABELLED = {"classify", "tag", "distilled"}  # heads that predict labels


class Model(Inspection):
    """A model, its tokenizer and its labels."""

    def __repr__(self) -> str:
        """Say what the model is and can do."""
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        labels = f", labels: {', '.join(map(str, self.labels[:8]))}{' …' if len(self.labels) > 8 else ''}"
        able = ", ".join(self.verbs) or "give hidden states and logits"
        shown = labels if set(getattr(self.config, "heads", ())) & LABELLED and self.labels else ""
        return f"<qkv.Model: {self.family}, {parameters:,} parameters, on {self.device}{shown}; can {able}>"

    @property
    def verbs(self) -> list[str]:
        """The verbs that the model's heads support."""
        return verbs(self)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels; LABEL_0 and so on where the folder names none, as in `transformers`."""
        return names_of(self)

    @property
    def word_vectors(self) -> Vectors:
        """The words of a model of word vectors and their vectors."""
        return Vectors(*named_vectors(self))

    @property
    def tags_entities(self) -> bool:
        """Whether the tags mark parts of names (B-, I-), and not words by themselves."""
        return has_entities(names_of(self))

    def classify(
        self,
        texts: Sequence[Any],
        pairs: Sequence[str] | None = None,
        *,
        every: bool = False,
        top: int | None = None,
        threshold: float | None = None,
    ) -> list[Any]:
        """Classify each text, each pair of texts, or each image. A text that is too long is cut, with a warning.

        Args:
            texts: the texts, or the first of each pair. For a model of images: paths of PNG or JPEG files, Pillow
                images, or arrays of bytes with the shape [H, W], [H, W, C] or [C, H, W].
            pairs: the second of each pair.
            every: return all labels, most likely first.
            top: return so many labels, most likely first.
            threshold: for models that give any number of labels, the lowest probability; None means the folder's own.

        Returns:
            A `Label` for each text or image; a list of labels if the model gives any number of them or with `every` or
            `top`; a number if the model was trained to predict one.
        """
        return classify(self, texts, pairs, every=every, top=top, threshold=threshold)

    def image_chances(self, images: Sequence[np.ndarray[Any, Any]], where: Sequence[str]) -> Tensor:
        """Return the probability of each class for images in bytes; `where` names each in messages.

        Shape: [C, H, W] each -> [images, classes].
        """
        return chances_of_images(self, images, where)

    def tag(self, texts: Sequence[str] | Sequence[Sequence[str]], *, words: bool | None = None) -> list[list[Entity]]:
        """Find the entities of each text. A long text is read completely, in windows that overlap.

        Args:
            texts: texts, or lists of words. The positions of words are those in the text you get by joining them with
                single spaces.
            words: return each word with its tag instead of entities. None does so for lists of words, and for tags that
                label single words (parts of speech).
        """
        return tag(self, texts, words=words)

    def answer(
        self,
        questions: Sequence[str],
        contexts: str | Sequence[str],
        *,
        nbest: int = 1,
        no_answer: bool | None = None,
        max_length: int | None = None,
    ) -> list[Answer]:
        """Answer each question with a piece of its context. A long context is read completely, in windows that overlap.

        Args:
            questions: the questions.
            contexts: one context for each question, or one for all.
            nbest: answers for each question; those after the best are its `others`.
            no_answer: allow an empty answer, given if its score exceeds every other by the folder's threshold (0 if
                the folder has none). None means what the folder says.
            max_length: tokens of a window. None means 384, or what the model takes if that is less.
        """
        return answer(self, questions, contexts, nbest=nbest, no_answer=no_answer, max_length=max_length)

    def answer_margins(self, questions: Sequence[str], contexts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the best span for each question, and by how much "no answer" scores above it."""
        return doubts(self, questions, contexts)

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[list[Choice]]]:
        """Return the most likely words for each mask of each text, most likely first.

        Args:
            texts: texts that contain the tokenizer's mask, "[MASK]" or "<mask>".
            top: how many words for each mask.
        """
        return fill(self, texts, top=top)

    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = ...,
        normalize: bool = ...,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        output: Literal["numpy"] = ...,
        progress: Callable[[int], None] | None = ...,
    ) -> np.ndarray[Any, Any]: ...
    @overload
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = ...,
        normalize: bool = ...,
        prompt: str | None = ...,
        prompt_name: str | None = ...,
        output: Literal["torch"],
        progress: Callable[[int], None] | None = ...,
    ) -> Tensor: ...
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = None,
        normalize: bool = False,
        prompt: str | None = None,
        prompt_name: str | None = None,
        output: str = "numpy",
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray[Any, Any] | Tensor:
        """Turn each text into one vector.

        A folder of sentence-transformers gives what that library gives: its pooling, its Dense and Normalize modules
        and its default prompt. Any other folder gives the mean of a text's last states.

        Args:
            texts: a list of strings.
            pooling: mean, first, last, max, mean_sqrt or weighted_mean of the states; two joined by "+" give both
                vectors. None does what the folder says; a pooling that the folder does not name replaces all of it.
            normalize: scale each vector to length 1.
            prompt: a text to put before each text.
            prompt_name: the name of one of the folder's own prompts, instead.
            output: "numpy" or "torch".
            progress: called with the number of texts that each batch has finished.

        Returns:
            Shape: [texts, D], float32.
        """
        return embed(
            self,
            texts,
            pooling=pooling,
            normalize=normalize,
            prompt=prompt,
            prompt_name=prompt_name,
            output=output,
            progress=progress,
        )

    def similar(self, a: str, b: str) -> float:
        """Return the cosine of two texts' vectors."""
        x, y = self.embed([a, b], normalize=True, output="torch")
        return float(x @ y)

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: Literal[1] = ...,
        scores: Literal[False] = ...,
        alignments: Literal[False] = ...,
        progress: Callable[[int], None] | None = ...,
        **options: Any,
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: int = ...,
        scores: bool = ...,
        alignments: bool = ...,
        progress: Callable[[int], None] | None = ...,
        **options: Any,
    ) -> list[Any]: ...
    def translate(
        self,
        texts: Sequence[str],
        *,
        nbest: int = 1,
        scores: bool = False,
        alignments: bool = False,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[Any]:
        """Translate each text; the white space around it is kept.

        A text that is long, or has more than two sentences, is translated sentence by sentence.

        Args:
            texts: any texts, empty ones too.
            nbest: translations for each text; those after the best are its `others`.
            scores: return `Translation` objects, with scores and tokens.
            alignments: return `Translation` objects with word alignments.
            progress: called with the number of texts that each batch has finished.
            options: beam (4 if not given), length_penalty, prefix (one text, or one for each), forbidden (words that
                must not occur) and the other fields of `DecodingConfig`. For T5: task (one of the folder's tasks) or
                source_prefix (what to read before each text); by default, what the folder says. split=False translates
                each text as a whole.

        Returns:
            A string for each text; a `Translation` with nbest, scores or alignments.
        """
        found = translate(self, texts, nbest=nbest, alignments=alignments, progress=progress, **options)
        return found if nbest != 1 or scores or alignments else [translation.text for translation in found]

    def translate_stream(self, texts: Iterable[str], *, chunk: int = 512, **options: Any) -> Iterator[Any]:
        """Translate texts as they arrive, in order; at most `chunk` of them are held at a time."""
        return stream(self.translate, texts, chunk, options)

    def generate(
        self,
        prompts: Sequence[str],
        *,
        samples: int = 1,
        max_length: int | None = None,
        stop: Sequence[str] = (),
        prefix: str | None = None,
        window: bool = False,
        probabilities: int = 0,
        on_text: Callable[[str], None] | None = None,
        progress: Callable[[int], None] | None = None,
        **options: Any,
    ) -> list[Generated]:
        """Generate text: what follows each prompt or, from a T5, its answer to each.

        Settings that you do not give are those of the folder's generation_config.json. A sample depends on its prompt
        and the seed, and not on the other prompts.

        Args:
            prompts: any texts.
            samples: texts for each prompt; those after the first are its `others`. With a beam, its n best.
            max_length: the most new tokens; if None, what the folder says or 200.
            stop: strings that end a text; they are not part of it.
            prefix: what to put before each prompt; if None, what the folder says.
            window: read only the end of a prompt that is longer than the context, and go on when the context is full
                with its last half. Without it, such a prompt is an error, and a text ends where the context does.
            probabilities: note this many of the most likely tokens for each token, in `steps`.
            on_text: called with each piece of the text as it is generated, for one prompt and one sample.
            progress: called with the number of prompts that each batch has finished.
            options: sample, temperature, top_k, top_p, min_p, seed, repetition_penalty, no_repeat_ngram, beam and the
                other fields of `DecodingConfig`. A setting of sampling turns sampling on.
        """
        return generate(
            self,
            prompts,
            samples=samples,
            max_length=max_length,
            stop=stop,
            prefix=prefix,
            window=window,
            probabilities=probabilities,
            on_text=on_text,
            progress=progress,
            **options,
        )

    def score(
        self, prompts: Sequence[str], continuations: Sequence[str], *, prefix: str | None = None
    ) -> list[Likelihood]:
        """Return how likely each continuation is after its prompt.

        Args:
            prompts: one for each continuation. After an empty one, a text begins.
            continuations: what follows, as it is written: " France" with its space. For a T5, the whole target.
            prefix: what to put before each prompt; if None, what the folder says.
        """
        return score(self, prompts, continuations, prefix=prefix)

    def zero_shot(
        self,
        texts: Sequence[str],
        labels: Sequence[str],
        prompt: str,
        *,
        examples: Sequence[tuple[str, str]] = (),
        normalize: bool = False,
        calibrate: bool = False,
    ) -> list[list[Label]]:
        r"""Classify each text by the label that the model finds most likely after a prompt.

        Args:
            texts: the texts.
            labels: the labels, at least two.
            prompt: a template such as "{text}\nSentiment:"; the label follows at its end, or where it has {label}.
            examples: texts with their labels, which are written before each text (few-shot).
            normalize: compare the mean log-probability of a label's tokens, not their sum, so that long labels are not
                at a disadvantage.
            calibrate: divide by the probability of each label after an empty text (Zhao et al. 2021).

        Returns:
            For each text all labels with their probabilities, most likely first.
        """
        return zero_shot(self, texts, labels, prompt, examples=examples, normalize=normalize, calibrate=calibrate)

    def log_probs(self, ids: Ids, target_ids: Ids | None = None) -> list[Tensor]:
        """Return the log-probability of each token but the first, given those before it.

        Args:
            ids: lists of token ids.
            target_ids: for an encoder-decoder, the targets, which are then measured, start tokens included.
        """
        self.module.head("lm")
        return log_probs(self, ids, target_ids)
