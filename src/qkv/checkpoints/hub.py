"""Models on the Hugging Face Hub: `hf:OWNER/NAME[@REVISION]`, through the package `huggingface_hub`.

    revision ─► commit and list of files ─► config.json ─► tokenizer, pooling ─► weights ─► ref ─► folder in the cache

Only the files that a model folder consists of are downloaded: safetensors, JSON and plain vocabularies. Weights come
last, so that an interrupted download is never mistaken for a model, and the ref (branch to commit) after them, so that
the previous commit stays usable offline until then. `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` work as
everywhere.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from qkv.checkpoints import preprocessor
from qkv.checkpoints.folder import OURS, model_types
from qkv.checkpoints.hf.generation import FILE as GENERATION
from qkv.checkpoints.sentence import MODULES, PROMPTS
from qkv.checkpoints.update import DIGESTS
from qkv.checkpoints.weights import INDEX, WHOLE, read_json, shards
from qkv.common.errors import QkvError, StorageError, UsageError, reason_of, show
from qkv.data.files import HUB
from qkv.data.optional import need
from qkv.tokenizers.loading import LIMITS

# Everything but the weights. Patterns reach one folder deep: the modules of sentence-transformers.
FILES = (
    "config.json", DIGESTS, "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt",
    GENERATION, MODULES, PROMPTS, LIMITS, preprocessor.FILE, "[0-9]_*/config.json", f"[0-9]_*/{WHOLE}",
)  # fmt: skip
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack", ".gguf", ".onnx")
NOT_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt")
PART = r"[A-Za-z0-9_](?:[\w.-]*\w)?"
NAME = re.compile(rf"{HUB}(?P<repo>(?![^@]*(?:--|\.\.)){PART}(?:/{PART})?)(?:@(?P<revision>[^\s@]+))?", re.ASCII)


@dataclass(frozen=True)
class HubModel:
    """A model on the Hub.

    Attributes:
        repo: OWNER/NAME.
        revision: a branch, a tag or a commit; None means the default branch.
    """

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{HUB}{self.repo}" + (f"@{self.revision}" if self.revision else "")


def parse(name: str) -> HubModel:
    """Split `hf:OWNER/NAME[@REVISION]`."""
    found = NAME.fullmatch(name)
    if found is None:
        raise UsageError(f"{show(name)} names no model: write hf:OWNER/NAME or hf:OWNER/NAME@REVISION")
    return HubModel(found["repo"], found["revision"])


def hint(path: str) -> str:
    """Return the end of an error about a path that does not exist: it may be the name of a model on the Hub."""
    named = path.count("/") == 1 and NAME.fullmatch(HUB + path)
    return f"; if it is a model on the Hugging Face Hub, write {HUB}{path}" if named else ""


def pinned(name: str) -> str:
    """Download a model and return its name with the commit in place of the revision."""
    return str(HubModel(parse(name).repo, download(name).name))


def download(name: str) -> Path:
    """Return the folder of a model in the Hub's cache, whose name is the commit; download what is missing.

    If the download fails, a complete copy in the cache is used instead, with a warning.
    """
    asked = parse(name)
    hub = need("huggingface_hub", f"loading {name}", "'qkv[hub]'")
    errors = need("huggingface_hub.errors", f"loading {name}", "'qkv[hub]'")
    try:
        return _fetch(hub, asked)
    except QkvError:
        raise
    except Exception as error:  # many kinds: not found, not allowed, no network, a connection that broke
        problem = _explained(asked, error, errors, hub.constants.ENDPOINT)
        kept = _cached(hub, asked)
        if kept is None:
            raise problem from None
        if not isinstance(error, errors.OfflineModeIsEnabled):
            warnings.warn(f"{problem}; using commit {kept.name} from the cache", stacklevel=2)
        return kept


def _fetch(hub: Any, asked: HubModel) -> Path:
    """Download the files of a model, the config first and the weights last."""
    listing = hub.HfApi().model_info(asked.repo, revision=asked.revision)
    names = [file.rfilename for file in listing.siblings or ()]

    def get(name: str, revision: str | None = listing.sha) -> Path:
        return Path(hub.hf_hub_download(asked.repo, name, revision=revision))

    _check_names(asked, names)
    folder = get("config.json").parent
    _check_family(asked, folder)
    for name in sorted(filter(_belongs, names)):
        get(name)
    for name in [WHOLE] if WHOLE in names else _shards(get(INDEX)):
        get(name)
    known = hub.try_to_load_from_cache(asked.repo, "config.json", revision=asked.revision)
    if not isinstance(known, str) or Path(known).parent.name != folder.name:
        get("config.json", asked.revision)  # records which commit the branch points to, for use offline
    return folder


def _belongs(name: str) -> bool:
    return any(fnmatch(name, pattern) and name.count("/") == pattern.count("/") for pattern in FILES)


def _shards(index: Path) -> list[str]:
    return sorted(set(shards(index).values()))


def _cached(hub: Any, asked: HubModel) -> Path | None:
    """Return the folder of a model that is completely in the cache. Nothing is sent to the Hub."""
    try:
        found = hub.snapshot_download(
            asked.repo, revision=asked.revision, local_files_only=True, allow_patterns=[*FILES]
        )
    except (OSError, ValueError):  # it is not there, or the cache knows that some of its files are not
        return None
    folder = Path(found)
    whole = [WHOLE] if not (folder / INDEX).is_file() or (folder / WHOLE).is_file() else _shards(folder / INDEX)
    return folder if all((folder / name).is_file() for name in ("config.json", *whole)) else None


def _check_names(asked: HubModel, names: list[str]) -> None:
    """Raise an error for a repository without a config or without safetensors, before anything is downloaded."""
    if "config.json" not in names:
        raise QkvError(f"{asked} has no config.json, so it is not a model that qkv reads")
    for place in sorted({PurePosixPath(name).parent for name in names if _belongs(name)}):
        inside = [path for path in map(PurePosixPath, names) if path.parent == place]
        if not {WHOLE, INDEX} & {path.name for path in inside}:
            _refuse_others(asked, place, inside)


def _refuse_others(asked: HubModel, place: PurePosixPath, inside: list[PurePosixPath]) -> None:
    """Raise an error for a folder that has weights in other formats only; modules such as Pooling have none."""
    others = [str(path) for path in inside if path.suffix in OTHER_WEIGHTS and path.name not in NOT_WEIGHTS]
    if others:
        raise QkvError(
            f"{asked} has no {place / WHOLE}, only {', '.join(others[:3])}{', …' if len(others) > 3 else ''}, and qkv "
            "reads safetensors only: convert it at https://huggingface.co/spaces/safetensors/convert and load the pull "
            f"request that this opens, {HUB}{asked.repo}@refs/pr/NUMBER"
        )
    if place == PurePosixPath():
        raise QkvError(f"{asked} has no weights: it needs {WHOLE} or {INDEX}")


def _check_family(asked: HubModel, folder: Path) -> None:
    """Raise an error for a model that cannot be read, before its weights are downloaded."""
    kind, known = read_json(folder / "config.json").get("model_type"), model_types()
    if kind not in known:
        theirs = ", ".join(name for name in known if not name.startswith(OURS))
        raise QkvError(f"{asked} is of the family {show(kind)}, which qkv does not read (it reads {theirs})")


def _explained(asked: HubModel, error: Exception, errors: Any, hub: str) -> QkvError:
    """Return an error of `huggingface_hub` as one sentence. Gated is a kind of not found there."""
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # a file is not in the cache because the request for it failed
    if isinstance(error, errors.OfflineModeIsEnabled):
        return QkvError(f"{asked} is not in the cache: unset HF_HUB_OFFLINE once to download it")
    if isinstance(error, errors.GatedRepoError):
        page = f"{hub}/{asked.repo}"
        return QkvError(f"{asked} is gated: accept its terms at {page} and set HF_TOKEN to a token of your account")
    if isinstance(error, errors.RevisionNotFoundError):
        return UsageError(f"{HUB}{asked.repo} has no revision {asked.revision!r}: give a branch, a tag or a commit")
    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
    if isinstance(error, errors.RepositoryNotFoundError) or status in (401, 403):  # the Hub tells no more than that
        return UsageError(
            f"{HUB}{asked.repo} does not exist at {hub}, or you may not read it: check the name and, if it is private, "
            "set HF_TOKEN to a token that can read it"
        )
    if status is not None:
        return QkvError(f"{asked} cannot be downloaded: {hub} answered {status}; try again later")
    if isinstance(error, errors.HTTPError):
        return QkvError(f"{hub} cannot be reached ({_line(error)}): check your connection to download {asked}")
    if isinstance(error, OSError) and error.errno is not None:
        return StorageError(f"{asked} cannot be stored in {error.filename or 'the cache'}: {reason_of(error)}")
    return QkvError(f"{asked} cannot be downloaded: {_line(error)}")


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
