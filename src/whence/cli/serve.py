"""`whence serve [STORE]`: debuginfod, symbolication, names for profiles and tables, uploads, and a page."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.errors import WrongUse
from whence._base.words import plain
from whence.cli.main import ANSWERED
from whence.cli.options import cache_root, gibibytes, store_place

PORT = 8002


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "store", nargs="?", default="", metavar="STORE", help="a folder, s3://, gs:// or az:// (your own)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"the port ({PORT})")
    parser.add_argument("--by", choices=("granian", "uvicorn"), default="", help="the HTTP server (the one installed)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (1)")
    who = parser.add_argument_group("who may do what")
    who.add_argument("--token-file", metavar="FILE", default="", help="lines of: a token's SHA-256, scopes, a name")
    who.add_argument("--open-read", action="store_true", help="everyone may read, also from elsewhere")
    who.add_argument("--no-uploads", action="store_true", help="take no files")
    who.add_argument("--tls-cert", metavar="FILE", default="", help="with --tls-key: speak HTTPS")
    who.add_argument("--tls-key", metavar="FILE", default="", help="the certificate's key")
    who.add_argument("--make-token", metavar="SCOPES", help="print a token with these scopes and its line, and end")
    more = parser.add_argument_group("where else names come from, and where profiles go")
    more.add_argument("--upstream", action="append", default=[], metavar="URL", help="a debuginfod to ask (repeatable)")
    more.add_argument(
        "--upstream-allow", action="append", default=[], metavar="PATTERN", help="only for these build-ids (all)"
    )
    more.add_argument("--forward", metavar="URL", default="", help="send named OTLP profiles there")
    more.add_argument("--keep", dest="cache_dir", metavar="DIR", help="where files from a bucket are kept (the cache)")
    more.add_argument(
        "--keep-size",
        type=gibibytes,
        default=4.0,
        metavar="GIB",
        help="how large that folder may grow (4; docs/scale.md)",
    )


def run(options: Namespace) -> int:
    try:
        import starlette  # noqa: F401

        from whence.server.access import is_loopback
        from whence.server.run import serve
        from whence.server.settings import ServerSettings
    except ImportError as error:
        raise WrongUse(f"{error.name} is not installed: pip install 'whence[server]'") from None
    if options.make_token:
        from whence.server.access import make_token

        token, line = make_token(options.make_token, "who")
        print(f"token: {token}\nline:  {line}")
        return ANSWERED
    if bool(options.tls_cert) != bool(options.tls_key):
        raise WrongUse("--tls-cert and --tls-key go together")
    local = is_loopback(options.host)
    settings = ServerSettings(
        store=store_place(options.store),
        cache=cache_root(options),
        cache_bytes=int(options.keep_size * (1 << 30)),
        upstreams=tuple(options.upstream),
        upstream_allow=tuple(options.upstream_allow) or ("*",),
        forward=options.forward,
        token_file=options.token_file,
        open_read=options.open_read or (local and not options.token_file),
        uploads=not options.no_uploads and (local or bool(options.token_file)),
    )
    scheme = "https" if options.tls_cert else "http"
    print(f"whence serve: {plain(settings.store)} at {scheme}://{options.host}:{options.port}/", file=sys.stderr)
    tls = (options.tls_cert, options.tls_key) if options.tls_cert else None
    serve(settings, host=options.host, port=options.port, by=options.by, tls=tls, workers=options.workers)
    return ANSWERED
