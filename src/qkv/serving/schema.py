"""The bodies of requests: the options have the names and the defaults of the Python verbs."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Few = Annotated[int, Field(ge=1, le=16)]
Count = Annotated[int, Field(ge=1, le=1000)]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[list[str], Field(min_length=1, description="The texts; one answer for each, in their order.")]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Request(BaseModel):
    """What every verb takes.

    Attributes:
        COLUMNS: the fields with one value for each text; all others are options, the same for all texts.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    COLUMNS: ClassVar[tuple[str, ...]] = ("texts",)

    model: str | None = Field(None, description="A name from /v1/models. Default: one that has the verb.")
    texts: Texts

    def columns(self) -> dict[str, list[Any]]:
        """Return the fields with one value for each text."""
        given = {name: getattr(self, name) for name in self.COLUMNS}
        return {name: values for name, values in given.items() if values is not None}

    def options(self) -> dict[str, Any]:
        """Return the other fields that were given."""
        return self.model_dump(exclude={"model", "stream", *self.COLUMNS}, exclude_unset=True, exclude_none=True)


class _Search(Request):
    """Settings of a search: fields of `DecodingConfig`."""

    beam: Few | None = None
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    max_length: Annotated[int, Field(ge=1)] | None = Field(None, description="The most new tokens.")
    min_length: Annotated[int, Field(ge=0)] | None = None
    sample: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=10**6)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Share | None = None
    seed: Seed | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] | None = None


class Translate(_Search):
    """Translate each text."""

    nbest: Few = 1
    scores: bool = Field(False, description="Give tokens with their scores.")
    alignments: bool = Field(False, description="Give pairs of word numbers that belong together.")
    prefix: str | None = Field(None, description="Start every translation with this text.")
    forbidden: list[str] | None = Field(None, max_length=100, description="Words that must not occur.")
    task: str | None = None
    source_prefix: str | None = None
    split: bool | None = None


class Generate(_Search):
    """Continue each text or, with a T5, answer it."""

    samples: Few = 1
    stop: Annotated[list[str], Field(max_length=16)] | None = None
    prefix: str | None = None
    window: bool = False
    probabilities: Annotated[int, Field(ge=0, le=20)] = 0
    tokens: bool = Field(False, description="Give tokens with their log-probabilities.")
    stream: bool = Field(False, description="Send the text as server-sent events, as it is generated.")


class Classify(Request):
    """Classify each text."""

    every: bool = False
    top: Count | None = None
    threshold: Share | None = None


class Pairs(Classify):
    """Classify each text together with its second text."""

    COLUMNS = ("texts", "pairs")
    pairs: list[str] = Field(description="The second text of each pair.")


class Tag(Request):
    """Find the entities, or the tag of each word, of each text."""

    words: bool | None = None


class Answer(Request):
    """Answer each question (`texts`) from its context."""

    COLUMNS = ("texts", "contexts")
    contexts: str | list[str] = Field(description="One context for each question, or one for all.")
    nbest: Few = 1
    no_answer: bool | None = None
    max_length: Annotated[int, Field(ge=8, le=65_536)] | None = None

    def columns(self) -> dict[str, list[Any]]:
        """Give each question its context."""
        each = [self.contexts] * len(self.texts) if isinstance(self.contexts, str) else self.contexts
        return {"texts": self.texts, "contexts": each}


class Fill(Request):
    """Find words for each mask of each text."""

    top: Annotated[int, Field(ge=1, le=100)] = 5


class Embed(Request):
    """Turn each text into a vector."""

    pooling: str | None = None
    normalize: bool = False
    prompt: str | None = None
    prompt_name: str | None = None


class Similar(Request):
    """Compare each text with all of them or, with `pairs`, with one other text; the answers are cosines."""

    COLUMNS = ("texts", "pairs")
    pairs: list[str] | None = None


class Search(Request):
    """Find the lines nearest to each query (`texts`)."""

    lines: list[str] = Field(min_length=1, description="What is searched.")
    top: Count = 5


class Image(Request):
    """Classify each image."""

    texts: Texts = Field(description="PNG or JPEG files in base64, or as data: URLs.")
    every: bool = False
    top: Count | None = None


class Look(Request):
    """Look at the attention over each text, and what each layer would answer. An image is a text in base64."""

    COLUMNS = ("texts", "targets")
    targets: list[str] | None = Field(None, description="Translations, or the second texts of pairs.")
    layer: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    head: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    part: str | None = None
    beam: Few | None = None
    html: bool = Field(False, description="Also give the page with every layer and head.")


class Explain(Request):
    """Measure what each word adds to the answer."""

    COLUMNS = ("texts", "pairs")
    pairs: list[str] | None = None
    of: str | None = None
    verb: str | None = None
    steps: Annotated[int, Field(ge=1, le=384)] | None = None
    each: bool = False


VERBS: dict[str, type[Request]] = {
    "translate": Translate,
    "generate": Generate,
    "classify": Classify,
    "pairs": Pairs,
    "tag": Tag,
    "answer": Answer,
    "fill": Fill,
    "embed": Embed,
    "similar": Similar,
    "search": Search,
    "image": Image,
    "look": Look,
    "explain": Explain,
}
