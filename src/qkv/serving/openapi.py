"""How the routes describe themselves in openapi.json. Bodies are read by the routes, so FastAPI does not know them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
ERRORS = {
    401: "The API key is missing or wrong.",
    403: "The server has no API key, and the Host header of the request is not a name of this machine.",
    404: "There is no such model.",
    405: "The route does not take this method.",
    408: "The client sent the request too slowly.",
    409: "The model is being loaded again, or could not be loaded and stays as it was.",
    413: "The request is too large.",
    415: "The body is not JSON.",
    422: "The request is wrong.",
    429: "Too many requests wait: try again after Retry-After seconds.",
    503: "The models are being loaded.",
    504: "The deadline has passed.",
}


def described(kind: type[BaseModel]) -> dict[str, Any]:
    """Return how FastAPI describes a route that takes this body."""
    about = (kind.__doc__ or "").partition("\n\n")
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {
        "summary": about[0].strip(),
        "description": " ".join(about[2].split("Attributes:")[0].split()),
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
        "responses": responses(),
    }


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route; all of them if none are named."""
    content = {"application/json": {"schema": ERROR}}
    return {status: {"description": ERRORS[status], "content": content} for status in statuses or ERRORS}
