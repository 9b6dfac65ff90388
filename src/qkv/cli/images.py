"""`qkv classify MODEL image.png …`: the images that arguments name, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qkv.cli.texts import STANDARD_INPUT, print_message, standard_input
from qkv.common.errors import QkvError, UsageError
from qkv.data.files import read_lines
from qkv.data.images import find_images
from qkv.predict import Model

AT_ONCE = 64  # images answered at a time
REMEDY = "; correct it, or skip such images with --skip-bad"
Answered = tuple[Mapping[str, Any], Any]


def named_images(arguments: list[str], file: str | None) -> list[str]:
    """Return the paths of images: from arguments, a file or standard input with one path, folder or pattern a line."""
    if file is not None and arguments:
        raise UsageError("give either images on the command line or --file, not both")
    if file is not None:
        names = [text for _, text in read_lines(file) if text.strip()]
    else:
        names = list(standard_input()) if arguments == STANDARD_INPUT else arguments
    if not names:
        raise UsageError("no images: give files, folders or patterns, --file FILE with a path a line, or -")
    return find_images(names)


def answers(model: Model, paths: list[str], options: Mapping[str, Any], *, skip_bad: bool) -> Iterator[Answered]:
    """Yield each image and its labels; one that cannot be decoded is an error, or is reported and skipped."""
    from qkv.data.bad_rows import BadRow
    from qkv.data.images import read_image

    for start in range(0, len(paths), AT_ONCE):
        names, images = [], []
        bad = ""
        for path in paths[start : start + AT_ONCE]:
            try:
                images.append(read_image(path))
                names.append(path)
            except BadRow as error:
                bad = f"{path}: {error}"
                if not skip_bad:
                    break
                print_message(f"{bad}; skipped")
        found = model.classify([_last_axis(image) for image in images], **options)
        yield from (({"image": name}, one) for name, one in zip(names, found, strict=True))
        if bad and not skip_bad:
            raise QkvError(bad + REMEDY)


def _last_axis(image: Any) -> Any:
    """Put the channels last, which no size can make ambiguous."""
    return image.transpose(1, 2, 0)
