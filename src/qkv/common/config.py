"""Convert frozen dataclasses to and from plain dicts; errors name unknown keys and wrong types."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from qkv.common.errors import UsageError, show, unknown

C = TypeVar("C")


def from_dict(cls: type[C], values: Mapping[str, Any], *, where: str = "") -> C:
    """Build config `cls` from `values`; a nested config may be given by its first field alone."""
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise unknown(f"key of {cls.__name__}", where + key, [where + name for name in names])
    try:
        return cls(**{key: _coerce(hints[key], value, f"{where}{key}") for key, value in values.items()})
    except TypeError as error:  # a required key is missing
        raise UsageError(f"{cls.__name__}: {error}") from None


def to_dict(config: Any) -> dict[str, Any]:
    """Return `config` as a dict that JSON and TOML can hold."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(config).items()
    }


def to_toml(config: Any) -> str:
    """Write a config, or its tables, as TOML: plain keys first, then a table for each nested one. None is left out."""
    values = config if isinstance(config, Mapping) else dataclasses.asdict(config)
    return "\n".join(_toml(values, "")).strip() + "\n"


def _toml(values: Mapping[str, Any], path: str) -> list[str]:
    lines = [f"{key} = {_toml_value(v)}" for key, v in values.items() if v is not None and not isinstance(v, Mapping)]
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            lines += ["", f"[{path}{key}]", *_toml(value, f"{path}{key}.")]
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # JSON numbers, strings and booleans are valid TOML


def override(config: C, changes: Mapping[str, Any], *, where: str = "") -> C:
    """Return `config` with some keys changed; a dotted key reaches into a nested config.

    A config whose keys depend on each other has a method `before_override`: it takes the changes and returns the config
    and the changes to make.
    """
    if hook := getattr(config, "before_override", None):
        config, changes = hook(changes)
    plain = {key: value for key, value in changes.items() if "." not in key}
    current = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    changed = from_dict(type(config), {**current, **plain}, where=where)
    for key in (key for key in changes if key not in plain):
        head, _, rest = key.partition(".")
        inner = getattr(changed, head, None)
        if isinstance(inner, dict):
            changed = dataclasses.replace(changed, **{head: _nested(inner, rest, changes[key])})  # type: ignore[type-var]
            continue
        if not dataclasses.is_dataclass(inner):
            raise unknown(f"key of {type(config).__name__}", key, current)
        changed = dataclasses.replace(changed, **{head: override(inner, {rest: changes[key]}, where=f"{where}{head}.")})  # type: ignore[type-var]
    return changed


def _nested(table: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return a table of tables with one dotted key changed."""
    head, dot, rest = key.partition(".")
    if not dot:
        return {**table, head: value}
    inner = table.get(head, {})
    return {**table, head: _nested(inner if isinstance(inner, Mapping) else {}, rest, value)}


def _coerce(hint: Any, value: Any, where: str) -> Any:
    """Check `value` against a field's type, converting what plain data cannot hold (tuples, nested configs, floats)."""
    if isinstance(hint, types.UnionType):
        if value is None and type(None) in hint.__args__:
            return None
        hint = next(arg for arg in hint.__args__ if arg is not type(None))
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            return value
        first = dataclasses.fields(hint)[0].name
        return from_dict(
            typing.cast(type, hint), value if isinstance(value, Mapping) else {first: value}, where=f"{where}."
        )
    if typing.get_origin(hint) is dict:
        if not isinstance(value, Mapping):
            raise UsageError(f"{where} takes a table, got {show(value)}")
        return dict(value)
    if typing.get_origin(hint) is tuple:
        values = value if isinstance(value, list | tuple) else (value,)  # one is a list of one
        return tuple(_coerce(typing.get_args(hint)[0], one, where) for one in values)
    if hint in (int, float) and isinstance(value, int | float):
        _check_size(value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise UsageError(f"{where} takes {_said(hint)}, got {show(value)}")
    return value


def _check_size(value: float, where: str) -> None:
    """Refuse whole numbers that do not fit in 64 bits, NaN and infinities."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{where} takes a number of at most 63 bits, got one of {value.bit_length()} bits")
    if not math.isfinite(value):
        raise UsageError(f"{where} takes a finite number, got {value}")


def check_range(name: str, value: float, least: float, below: float = math.inf) -> None:
    """Stop a number that is not from `least` to just below `below`."""
    if not least <= value < below:
        most = "" if below == math.inf else f" and below {below:g}"
        raise UsageError(f"{name} must be at least {least:g}{most}, got {value:g}")


def _said(hint: type) -> str:
    return {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}.get(hint, hint.__name__)
