"""What a reader says about bad input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from qkv.common.errors import QkvError
from qkv.data.bad_rows import REMEDY


def message(examples: Iterable[Any]) -> str:
    """Return the error that reading some examples raises, without the advice about bad rows."""
    with pytest.raises(QkvError) as caught:
        list(examples)
    return str(caught.value).removesuffix(REMEDY)
