"""Names for anything: addresses as JSON lines or Arrow, whole profiles, and OTLP on its way to a backend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from whence._base.errors import WhenceError
from whence._base.reasons import Missing, Reason
from whence.locate.identity import comparable
from whence.profiles.formats import registry as formats
from whence.server.arrow import batches_of, build_ids_in
from whence.server.bodies import AnswerBudget, Refusal, body_of, count_profile_values, media_type_of, storage_refusal
from whence.server.deadlines import check_deadline
from whence.server.settings import FORWARD, PROFILE, SYMBOLIZE
from whence.symbolize.naming import why_nothing

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.server.parsing import NamedProfile
    from whence.server.state import Server

ARROW = "application/vnd.apache.arrow.stream"
JSON_LINES = ("application/x-ndjson", "application/jsonl", "application/json", "text/plain", "")
PROTOBUF = "application/x-protobuf"
HOP_BY_HOP = {
    "connection", "content-encoding", "content-length", "host", "keep-alive", "proxy-authenticate", "te", "trailer",
    "proxy-authorization", "transfer-encoding", "upgrade", "expect",
}  # fmt: skip
LONGEST_LINE = 1 << 16
LINES_TOGETHER, BYTES_TOGETHER = 1000, 1 << 20  # that are decoded in one call
NEWLINE = b"\n"
NO_OBJECT = "not an object with build_id and address"
FORWARD_SECONDS = 30.0


class NamingEndpoints:
    """/symbolize, /profile and /v1development/profiles."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = urllib3.PoolManager(maxsize=8, retries=False, timeout=FORWARD_SECONDS)

    async def symbolize(self, request: Request) -> Response:
        """Lines of {"build_id", "address"} to lines of {"frames"} or {"reason"}, in order; or an Arrow stream named."""
        self._server.count(request, "symbolize")
        limits = self._server.settings.limits
        kind = media_type_of(request)
        most = limits.body_bytes if kind == ARROW else min(limits.json_bytes, limits.body_bytes)
        body = await body_of(request, most, limits.body_seconds)
        returns = is_set(request, "return_addresses")
        if kind == ARROW:
            leaf = is_set(request, "leaf")
            named = await self._server.run(SYMBOLIZE, self._arrow, body, leaf, returns)
            return Response(named, media_type=ARROW)
        if kind not in JSON_LINES:
            raise Refusal(415, f"{kind[:80]!r} is not known: send JSON lines or {ARROW}")
        lines = await self._server.run(SYMBOLIZE, self._lines, body, returns)
        return Response(lines, media_type="application/x-ndjson")

    def _arrow(self, body: bytes, leaf: bool, returns: bool) -> bytes:
        try:
            import pyarrow as pa
        except ImportError:
            raise Refusal(501, "this server has no pyarrow: send JSON lines") from None
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
                        raise Refusal(413, f"the answer has more than {limits.answer_bytes} bytes: ask for fewer rows")
        except WhenceError as error:
            raise Refusal(422, str(error)) from None
        except (pa.ArrowException, OSError, ValueError) as error:  # a cut stream is an OSError
            raise Refusal(400, f"no Arrow stream: {(str(error).splitlines() or ['empty'])[0][:200]}") from None
        self._server.metrics.addresses.labels("asked").inc(rows)
        data: bytes = out.getvalue().to_pybytes()
        return data

    def _lines(self, body: bytes, returns: bool) -> bytes:
        limits = self._server.settings.limits
        if body.count(NEWLINE) > limits.addresses:
            raise Refusal(413, f"{body.count(NEWLINE)} lines, at most {limits.addresses} are allowed")
        asked = read_lines([line.strip() for line in body.split(NEWLINE) if line.strip()])
        wanted: dict[str, set[int]] = {}
        for one in asked:
            if not isinstance(one, str):
                wanted.setdefault(one[0], set()).add(one[1])
        self._server.check_build_ids(len(wanted))
        budget = AnswerBudget(limits.answer_bytes)
        known: dict[str, dict[int, bytes]] = {}
        for build_id, addresses in wanted.items():
            check_deadline()
            known[build_id] = self._named(build_id, addresses, returns, budget)
        out = [wrong(one) if isinstance(one, str) else known[one[0]][one[1]] for one in asked]
        AnswerBudget(limits.answer_bytes).charge(sum(map(len, out)) + len(out))
        self._server.metrics.addresses.labels("asked").inc(len(asked))
        return b"\n".join(out) + b"\n" if out else b""

    def _named(self, build_id: str, addresses: set[int], returns: bool, budget: AnswerBudget) -> dict[int, bytes]:
        """The lines that answer for some addresses of a build-id: frames, or why there are none. New lines are charged:
        each is at least once in the answer."""
        try:
            self._server.refresh([build_id])
            kept = self._server.answers.of(build_id, returns)
            with self._server.opened(build_id, len(addresses)) as opened:
                if isinstance(opened, Missing):
                    self._server.misses.note(build_id, "symbolize")
                    return dict.fromkeys(addresses, as_line(opened))
                new = sorted(addresses - kept.keys())
                if new:
                    chains = opened.binary.lookup_many(new, return_address=returns).chains(
                        function=self._server.readable
                    )
                    nothing = as_line(Missing(why_nothing(opened.binary)))
                    lines = []
                    for chain in chains:
                        lines.append(as_line(chain) if chain else nothing)
                        budget.charge(len(lines[-1]))
                    self._server.answers.keep(build_id, returns, kept, dict(zip(new, lines, strict=True)))
                return kept
        except (WhenceError, OSError) as error:
            return dict.fromkeys(addresses, as_line(Missing(Reason.BROKEN_FILE, str(error))))

    async def profile(self, request: Request) -> Response:
        """A profile in, the same named, in the format that `format` says (default: as it came, text as folded)."""
        self._server.count(request, "profile")
        limits = self._server.settings.limits
        body = await body_of(request, limits.body_bytes, limits.body_seconds)
        asked = request.query_params.get("format", "")
        if asked and asked not in (*formats.WRITTEN, formats.PAGE):
            raise Refusal(400, f"format is one of {', '.join((*formats.WRITTEN, formats.PAGE))}, not {asked[:80]!r}")
        named = await self._server.run(PROFILE, self._profile, body, asked, "profile")
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
                found = self._server.named_profile(body, format, title)
        except WhenceError as error:
            raise Refusal(422, str(error)) from None
        except OSError as error:
            raise storage_refusal(error, "the profile can't be kept") from None
        self._server.metrics.addresses.labels("asked").inc(found.locations)
        for build_id, path in found.missed:
            self._server.misses.note(build_id, "profile", path)
        return found

    async def otlp(self, request: Request) -> Response:
        """OTLP profiles over HTTP: named, then forwarded with the headers that came; or returned."""
        self._server.count(request, "otlp")
        limits = self._server.settings.limits
        body = await body_of(request, limits.body_bytes, limits.body_seconds)
        kind = media_type_of(request)
        if kind not in (PROTOBUF, "application/json"):
            raise Refusal(415, f"OTLP over HTTP is {PROTOBUF} or application/json, not {kind[:80]!r}")
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
            raise Refusal(502, f"forwarding failed: {type(error).__name__}", headers={"Retry-After": "5"}) from None
        kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_BY_HOP}
        return Response(answer.data, answer.status, headers=kept)

    async def limits(self, request: Request) -> Response:
        self._server.count(request, "limits")
        return JSONResponse(self._server.settings.limits.as_json())


MEDIA = {
    "flamegraph": "text/html; charset=utf-8", "json": "application/json", "otlp-json": "application/json",
    "speedscope": "application/json", "firefox": "application/json", "folded": "text/plain; charset=utf-8",
    "top": "text/plain; charset=utf-8", "otlp": PROTOBUF, "arrow": ARROW,
}  # fmt: skip


def is_set(request: Request, name: str) -> bool:
    """Whether the query turns an option on."""
    return request.query_params.get(name, "") in ("1", "true")


def read_lines(lines: list[bytes]) -> list[tuple[str, int] | str]:
    """The build-ids and addresses of lines; of one that is not such a line, what is wrong with it, in words. Few are
    decoded together: a line's objects may take thirty times its bytes."""
    known: dict[str, str] = {}
    found: list[tuple[str, int] | str] = []
    for start in range(0, len(lines), LINES_TOGETHER):
        found += read_some(lines[start : start + LINES_TOGETHER], known)
    return found


def read_some(lines: list[bytes], known: dict[str, str]) -> list[tuple[str, int] | str]:
    rows: Any = None
    if sum(map(len, lines)) <= BYTES_TOGETHER and all(map(is_object, lines)):
        try:
            rows = json.loads(b"[" + b",".join(lines) + b"]")
        except (ValueError, RecursionError):  # one of them is wrong: each is read by itself then
            rows = None
    if rows is None or len(rows) != len(lines):
        return [read_line(line, known) for line in lines]
    return [read_row(row, known) for row in rows]


def is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and len(line) <= LONGEST_LINE


def read_line(line: bytes, known: dict[str, str]) -> tuple[str, int] | str:
    if len(line) > LONGEST_LINE:
        return f"a line of more than {LONGEST_LINE} bytes"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return NO_OBJECT
    return read_row(row, known)


def read_row(row: Any, known: dict[str, str]) -> tuple[str, int] | str:
    """The build-id, as the locator compares it (`known`: those that were compared), and the address of an object."""
    try:
        build_id, address = row["build_id"], row["address"]
    except (KeyError, TypeError):
        return NO_OBJECT
    if isinstance(address, str):
        try:
            address = int(address, 16)
        except ValueError:
            return "the address is no number in hex"
    if not isinstance(build_id, str) or type(address) is not int or not 0 <= address < 1 << 64:
        return "build_id is a text, address a number of 64 bits"
    folded = known.get(build_id)
    if folded is None:
        folded = known[build_id] = comparable(build_id)
    return folded, address


def wrong(why: str) -> bytes:
    """The answer to a line that asks for nothing."""
    return as_line(Missing(Reason.NOT_AN_ADDRESS, why))


def as_line(answer: Frames | Missing) -> bytes:
    """An answer as a line."""
    return json.dumps(as_json(answer)).encode()


def as_json(answer: Frames | Missing) -> dict[str, Any]:
    """A line's answer."""
    if isinstance(answer, Missing):
        return {"frames": [], "reason": answer.reason.word, "detail": answer.detail}
    frames = [
        {
            "function": one.function, "file": one.file, "line": one.line, "inlined": one.inlined,
            "start_line": one.start_line, "source": str(one.source),
        }
        for one in answer
    ]  # fmt: skip
    return {"frames": frames}
