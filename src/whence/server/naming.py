"""Names for addresses (as JSON lines or Arrow), profiles, and OTLP profiles, which are forwarded to a backend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3
from starlette.requests import Request
from starlette.responses import Response

from whence._base.errors import WhenceError
from whence._base.reasons import Missing, Reason
from whence.locate.identity import comparable
from whence.profiles.formats import written
from whence.server.bodies import AnswerBudget, Refusal, body_of, count_profile_values, media_type_of, storage_refusal
from whence.server.deadlines import check_deadline
from whence.server.responses import JsonResponse
from whence.server.settings import FORWARD, PROFILE, SYMBOLIZE
from whence.symbolize.naming import why_nothing

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.server.parsing import NamedProfile
    from whence.server.state import Server

ARROW = "application/vnd.apache.arrow.stream"
JSON_LINES = (
    "application/x-ndjson", "application/jsonl", "application/json", "text/plain", "",
    "application/x-www-form-urlencoded",  # what curl --data-binary sends
)  # fmt: skip
PROTOBUF = "application/x-protobuf"
HOP_BY_HOP = {
    "connection", "content-encoding", "content-length", "host", "keep-alive", "proxy-authenticate", "te", "trailer",
    "proxy-authorization", "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
LONGEST_LINE = 1 << 16
LINES_TOGETHER, BYTES_TOGETHER = 1000, 1 << 20  # decoded in one call
NEWLINE = b"\n"
NOT_A_QUERY = "not a JSON object with build_id and address"
FORWARD_SECONDS = 30.0


class NamingEndpoints:
    """/symbolize, /profile and /v1development/profiles."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = urllib3.PoolManager(maxsize=8, retries=False, timeout=FORWARD_SECONDS)

    async def symbolize(self, request: Request) -> Response:
        """Answer lines of {"build_id", "address"} by lines of {"frames"} or {"reason"}, or name an Arrow stream."""
        self._server.count(request, "symbolize")
        limits = self._server.settings.limits
        kind = media_type_of(request)
        limit = limits.body_bytes if kind == ARROW else min(limits.json_bytes, limits.body_bytes)
        body = await body_of(request, limit, limits.body_seconds)
        returns = is_set(request, "return_addresses")
        if kind == ARROW:
            leaf = is_set(request, "leaf")
            named = await self._server.run(SYMBOLIZE, self._arrow, body, leaf, returns)
            return Response(named, media_type=ARROW)
        if kind not in JSON_LINES:
            raise Refusal(415, f"unsupported Content-Type {kind[:80]!r}: send JSON lines or {ARROW}")
        lines = await self._server.run(SYMBOLIZE, self._lines, body, returns)
        return Response(lines, media_type="application/x-ndjson")

    def _arrow(self, body: bytes, leaf: bool, returns: bool) -> bytes:
        try:
            import pyarrow as pa

            from whence.server.arrow import batches_of, build_ids_in
        except ImportError:
            raise Refusal(501, "the server does not have pyarrow: send JSON lines") from None
        namer, limits = self._server.namer(leaf, returns), self._server.settings.limits
        out = pa.BufferOutputStream()
        rows = 0
        build_ids: set[str] = set()
        try:
            schema, batches = batches_of(body, limits)
            with pa.ipc.new_stream(out, namer.schema(schema)) as writer:
                for batch in batches:
                    rows += batch.num_rows
                    new = build_ids_in(batch) - build_ids
                    build_ids |= new
                    self._server.check_build_ids(len(build_ids))
                    self._server.refresh(new)
                    writer.write_batch(namer(batch))
                    if out.tell() > limits.answer_bytes:
                        raise Refusal(413, f"the answer has more than {limits.answer_bytes} bytes: split the stream")
        except WhenceError as error:
            raise Refusal(422, str(error)) from None
        except (pa.ArrowException, OSError, ValueError) as error:  # OSError if it is cut off
            raise Refusal(400, f"damaged Arrow stream: {(str(error).splitlines() or ['empty'])[0][:200]}") from None
        self._server.metrics.addresses.labels("asked").inc(rows)
        data: bytes = out.getvalue().to_pybytes()
        return data

    def _lines(self, body: bytes, returns: bool) -> bytes:
        limits = self._server.settings.limits
        if body.count(NEWLINE) > limits.addresses:
            raise Refusal(413, f"the body has {body.count(NEWLINE)} lines, at most {limits.addresses} are allowed")
        queries = read_lines([line.strip() for line in body.split(NEWLINE) if line.strip()])
        by_build_id: dict[str, set[int]] = {}
        for query in queries:
            if not isinstance(query, str):
                by_build_id.setdefault(query[0], set()).add(query[1])
        self._server.check_build_ids(len(by_build_id))
        budget = AnswerBudget(limits.answer_bytes)
        answers: dict[str, dict[int, bytes]] = {}
        for build_id, addresses in by_build_id.items():
            check_deadline()
            answers[build_id] = self._lookup(build_id, addresses, returns, budget)
        out = [invalid(query) if isinstance(query, str) else answers[query[0]][query[1]] for query in queries]
        AnswerBudget(limits.answer_bytes).charge(sum(map(len, out)) + len(out))
        self._server.metrics.addresses.labels("asked").inc(len(queries))
        return b"\n".join(out) + b"\n" if out else b""

    def _lookup(self, build_id: str, addresses: set[int], returns: bool, budget: AnswerBudget) -> dict[int, bytes]:
        """Return the lines for addresses of a build-id: frames, or the reason why frames are missing.

        New lines are charged to `budget`, since each is in the answer at least once.
        """
        try:
            self._server.refresh([build_id])
            lines = self._server.answers.lines_of(build_id, returns)
            with self._server.opened(build_id, len(addresses)) as opened:
                if isinstance(opened, Missing):
                    self._server.misses.note(build_id, "symbolize")
                    return dict.fromkeys(addresses, as_line(opened))
                new = sorted(addresses - lines.keys())
                if new:
                    chains = opened.binary.lookup_many(new, return_address=returns).chains(
                        function=self._server.readable
                    )
                    nothing = as_line(Missing(why_nothing(opened.binary)))
                    added = []
                    for chain in chains:
                        added.append(as_line(chain) if chain else nothing)
                        budget.charge(len(added[-1]))
                    self._server.answers.add(build_id, returns, lines, dict(zip(new, added, strict=True)))
                return lines
        except (WhenceError, OSError) as error:
            return dict.fromkeys(addresses, as_line(Missing(Reason.BROKEN_FILE, str(error))))

    async def profile(self, request: Request) -> Response:
        """Name a profile and return it in the format of the query (default: its own; text becomes folded)."""
        self._server.count(request, "profile")
        limits = self._server.settings.limits
        body = await body_of(request, limits.body_bytes, limits.body_seconds)
        format = request.query_params.get("format", "")
        if format and format not in (*written.WRITTEN, written.PAGE):
            names = ", ".join((*written.WRITTEN, written.PAGE))
            raise Refusal(400, f"unknown format {format[:80]!r}: use one of {names}")
        named = await self._server.run(PROFILE, self._profile, body, format, "profile")
        return Response(
            named.data,
            media_type=MEDIA.get(named.format, "application/octet-stream"),
            headers={"X-Whence-Locations": str(named.locations), "X-Whence-Named": str(named.named)},
        )

    def _profile(self, body: bytes, format: str, title: str) -> NamedProfile:
        """Return the named profile and note which files are missing. Raises Refusal."""
        limits = self._server.settings.limits
        try:
            with self._server.json_values.part() as part:
                part.take(count_profile_values(body, limits.json_values, limits.body_bytes))
                named = self._server.named_profile(body, format, title)
        except WhenceError as error:
            raise Refusal(422, str(error)) from None
        except OSError as error:
            raise storage_refusal(error, "the profile can't be stored") from None
        self._server.metrics.addresses.labels("asked").inc(named.locations)
        for build_id, path in named.missed:
            self._server.misses.note(build_id, "profile", path)
        return named

    async def otlp(self, request: Request) -> Response:
        """Name OTLP profiles, and forward them with the headers of the request; return them if there is no backend."""
        self._server.count(request, "otlp")
        limits = self._server.settings.limits
        body = await body_of(request, limits.body_bytes, limits.body_seconds)
        kind = media_type_of(request)
        if kind not in (PROTOBUF, "application/json"):
            raise Refusal(415, f"unsupported Content-Type {kind[:80]!r}: send {PROTOBUF} or application/json")
        format = "otlp-json" if kind == "application/json" else "otlp"
        data = (await self._server.run(PROFILE, self._profile, body, format, "")).data
        if not self._server.settings.forward:
            return Response(data, media_type=kind)
        return await self._server.run(FORWARD, self._forward, request, data, kind)

    def _forward(self, request: Request, data: bytes, kind: str) -> Response:
        headers = {
            key: value
            for key, value in request.headers.items()
            if key.lower() not in HOP_BY_HOP
            and not (key.lower() == "authorization" and self._server.access.is_own(value))
        }
        url = self._server.settings.forward.rstrip("/")
        if not url.endswith(request.url.path):
            url += request.url.path
        try:
            answer = self._http.request("POST", url, body=data, headers={**headers, "Content-Type": kind})
        except urllib3.exceptions.HTTPError as error:
            raise Refusal(
                502, f"forwarding to the backend failed: {type(error).__name__}", headers={"Retry-After": "5"}
            ) from None
        headers = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_BY_HOP}
        return Response(answer.data, answer.status, headers=headers)

    async def limits(self, request: Request) -> Response:
        """Return the limits of the server."""
        self._server.count(request, "limits")
        return JsonResponse(self._server.settings.limits.as_json())


MEDIA = {
    "flamegraph": "text/html; charset=utf-8", "json": "application/json", "otlp-json": "application/json",
    "speedscope": "application/json", "firefox": "application/json", "folded": "text/plain; charset=utf-8",
    "top": "text/plain; charset=utf-8", "otlp": PROTOBUF, "arrow": ARROW,
}  # fmt: skip


def is_set(request: Request, name: str) -> bool:
    """Return True if the query turns an option on."""
    return request.query_params.get(name, "") in ("1", "true")


def read_lines(lines: list[bytes]) -> list[tuple[str, int] | str]:
    """Return the build-id and address of each line, or what is wrong with the line.

    Lines are decoded in batches: the objects of a line may take thirty times its bytes.
    """
    build_ids: dict[str, str] = {}
    queries: list[tuple[str, int] | str] = []
    for start in range(0, len(lines), LINES_TOGETHER):
        queries += read_batch(lines[start : start + LINES_TOGETHER], build_ids)
    return queries


def read_batch(lines: list[bytes], build_ids: dict[str, str]) -> list[tuple[str, int] | str]:
    """Decode lines together, or one by one if a line is malformed."""
    rows: Any = None
    if sum(map(len, lines)) <= BYTES_TOGETHER and all(map(is_object, lines)):
        try:
            rows = json.loads(b"[" + b",".join(lines) + b"]")
        except (ValueError, RecursionError):  # a line is malformed
            rows = None
    if rows is None or len(rows) != len(lines):
        return [read_line(line, build_ids) for line in lines]
    return [read_row(row, build_ids) for row in rows]


def is_object(line: bytes) -> bool:
    """Return True if a line may be an object."""
    return line.startswith(b"{") and line.endswith(b"}") and len(line) <= LONGEST_LINE


def read_line(line: bytes, build_ids: dict[str, str]) -> tuple[str, int] | str:
    """Return the build-id and address of a line, or what is wrong with it."""
    if len(line) > LONGEST_LINE:
        return f"the line has more than {LONGEST_LINE} bytes"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return NOT_A_QUERY
    return read_row(row, build_ids)


def read_row(row: Any, build_ids: dict[str, str]) -> tuple[str, int] | str:
    """Return the build-id and address of an object, or what is wrong with it.

    `build_ids` caches the forms in which the locator compares build-ids.
    """
    try:
        build_id, address = row["build_id"], row["address"]
    except (KeyError, TypeError):
        return NOT_A_QUERY
    if isinstance(address, str):
        try:
            address = int(address, 16)
        except ValueError:
            return "the address is not a number in hex"
    if not isinstance(build_id, str) or type(address) is not int or not 0 <= address < 1 << 64:
        return "build_id has to be a string, address a number of 64 bits"
    folded = build_ids.get(build_id)
    if folded is None:
        folded = build_ids[build_id] = comparable(build_id)
    return folded, address


def invalid(why: str) -> bytes:
    """Return the answer to a malformed line."""
    return as_line(Missing(Reason.NOT_AN_ADDRESS, why))


def as_line(answer: Frames | Missing) -> bytes:
    """Return an answer as a line."""
    return json.dumps(as_json(answer)).encode()


def as_json(answer: Frames | Missing) -> dict[str, Any]:
    """Return an answer as JSON."""
    if isinstance(answer, Missing):
        return {"frames": [], "reason": answer.reason.word, "detail": answer.detail}
    frames = [
        {
            "function": frame.function, "file": frame.file, "line": frame.line, "inlined": frame.inlined,
            "start_line": frame.start_line, "source": str(frame.source),
        }
        for frame in answer
    ]  # fmt: skip
    return {"frames": frames}
