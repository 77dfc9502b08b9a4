"""JSON in responses."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response


class JsonResponse(Response):
    """A JSON value as ASCII: names and paths in binaries may have bytes that are not UTF-8, as single surrogates."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
