"""The page at /docs: the routes and their fields, from the OpenAPI description. It runs no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font-size:.95em}h2{margin:2.2rem 0 .2rem;font-size:1.1rem}dt{margin-top:.4rem}dd{margin-left:1.5rem}"
)


def page(openapi: Mapping[str, Any]) -> str:
    """Return the page."""
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
            f"<title>qkv: routes</title><style>{STYLE}</style><h1>qkv {escape(openapi['info']['version'])}</h1>",
            f"<p>{escape(openapi['info'].get('description', ''))} The same for programs: ",
            "<a href='openapi.json'>openapi.json</a>.</p>",
            *(line for path, methods in openapi["paths"].items() for line in _path(path, methods)),
            "</html>",
        ]
    )


def _path(path: str, methods: Mapping[str, Any]) -> Iterator[str]:
    for method, about in methods.items():
        yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(about.get('summary', ''))}</p>"
        body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        if fields := body.get("properties"):
            yield "<dl>"
            for name, field in fields.items():
                needed = " (needed)" if name in body.get("required", ()) else ""
                said = escape(field.get("description", ""))
                yield f"<dt><code>{escape(name)}</code>: {escape(_type(field))}{needed}</dt><dd>{said}</dd>"
            yield "</dl>"


def _type(field: Mapping[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    name = str(field.get("type", "any"))
    if name == "array":
        return f"list of {_type(field.get('items', {}))}"
    bounds = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}
    return ", ".join([name, *(f"{said} {field[key]}" for key, said in bounds.items() if key in field)])
