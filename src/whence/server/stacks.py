"""/stack/TOKEN: the names of a stack token, as a page, as text or as JSON (docs/formats/stack-token.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from whence import stack_token
from whence._base.errors import WhenceError, plain, without_file
from whence._base.reasons import Missing, Reason
from whence.server.bodies import Refusal
from whence.server.naming import as_json
from whence.server.page import html, render
from whence.server.responses import JsonResponse
from whence.server.settings import SYMBOLIZE
from whence.symbolize.naming import why_nothing

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.server.state import Server
    from whence.stack_token import StackToken

PAGE, TEXT = "text/html", "text/plain"


class TokenAnswer(NamedTuple):
    """The answer to an address of a token: its module's build-id as far as known, and frames or the reason."""

    build_id: str
    address: int
    frames: Frames | Missing

    @property
    def lines(self) -> list[str]:
        """The text of each function, innermost first; the reason if the address has none."""
        if isinstance(self.frames, Missing):
            return [f"{self.address:#x} {plain(str(self.frames))}"]
        located = (f" at {frame.file}:{frame.line}" if frame.file else "" for frame in self.frames)
        inlined = (" (inlined)" if frame.inlined else "" for frame in self.frames)
        names = (frame.function or "??" for frame in self.frames)
        return [plain(name + where + how) for name, where, how in zip(names, located, inlined, strict=True)]


class StackEndpoints:
    """/stack/TOKEN."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def stack(self, request: Request) -> Response:
        """Return the named stack: a page for browsers, text if text/plain is accepted, else JSON."""
        self._server.count(request, "stack")
        try:
            token = stack_token.decode(request.path_params["token"])
        except stack_token.TokenError as error:
            raise Refusal(400, str(error)) from None
        answers = await self._server.run(SYMBOLIZE, self._named, token)
        accept = request.headers.get("accept", "")
        if PAGE in accept:
            return html(render.stack([(answer.build_id, answer.lines) for answer in answers]))
        if TEXT in accept:
            lines = [f"#{index:<2} {line}" for index, answer in enumerate(answers) for line in answer.lines]
            return PlainTextResponse("\n".join(lines) + "\n")
        return JsonResponse({"frames": [as_object(answer) for answer in answers]})

    def _named(self, token: StackToken) -> list[TokenAnswer]:
        """Return the answer to each address, in order."""
        answers: dict[int, TokenAnswer] = {}
        by_module: dict[int | None, list[int]] = {}
        for index, frame in enumerate(token.frames):
            by_module.setdefault(frame.module, []).append(index)
        for module, indexes in by_module.items():
            prefix = "" if module is None else token.modules[module]
            build_ids = self._server.locator.build_ids_with(prefix) if prefix else []
            build_id = build_ids[0] if len(build_ids) == 1 else prefix
            detail = f"{len(build_ids)} files have build-ids that start with {prefix}" if len(build_ids) > 1 else ""
            missing = None if len(build_ids) == 1 else Missing(Reason.NO_FILE, detail)
            for is_return in (False, True):
                chosen = [index for index in indexes if bool(index or token.is_return) is is_return]
                addresses = [token.frames[index].address for index in chosen]
                if addresses:
                    named = [missing] * len(addresses) if missing else self._lookup(build_id, addresses, is_return)
                    for index, frames in zip(chosen, named, strict=True):
                        answers[index] = TokenAnswer(build_id, token.frames[index].address, frames)
        self._server.metrics.addresses.labels("asked").inc(len(answers))
        return [answers[index] for index in range(len(token.frames))]

    def _lookup(self, build_id: str, addresses: list[int], is_return: bool) -> list[Frames | Missing]:
        try:
            with self._server.opened(build_id, len(addresses)) as opened:
                if isinstance(opened, Missing):
                    self._server.misses.note(build_id, "stack")
                    return [opened] * len(addresses)
                answers = opened.binary.lookup_many(addresses, return_address=is_return)
                chains = answers.chains(function=self._server.readable)
                return [chain or Missing(why_nothing(opened.binary)) for chain in chains]
        except (WhenceError, OSError) as error:
            detail = without_file(error) if isinstance(error, WhenceError) else str(error)
            return [Missing(Reason.BROKEN_FILE, detail)] * len(addresses)


def as_object(answer: TokenAnswer) -> dict[str, Any]:
    """Return an answer as JSON."""
    return {"build_id": answer.build_id, "address": hex(answer.address), **as_json(answer.frames)}
