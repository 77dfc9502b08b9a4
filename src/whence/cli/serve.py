"""`whence serve [STORE]`: a store over HTTP: debuginfod, symbolication, named profiles and tables, uploads, a page."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.words import plain
from whence.cli.main import ANSWERED
from whence.cli.options import cache_root, existing_store, gibibytes

if TYPE_CHECKING:
    from whence.cli.parser import Parser

PORT = 8002


def configure(parser: Parser) -> None:
    parser.add_argument(
        "store",
        nargs="?",
        default="",
        metavar="STORE",
        help="a folder, s3://, gs:// or az:// (default: your own)",
    )
    parser.add_argument("--create", action="store_true", help="allow a STORE folder that does not exist yet")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, metavar="N", help=f"port to listen on ({PORT})")
    parser.add_argument(
        "--by", choices=("granian", "uvicorn"), default="", help="HTTP server (default: the installed one)"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="number of worker processes (1)")
    parser.add_argument("--open", action="store_true", help="open the server's page in the browser")
    parser.add_argument(
        "--also",
        metavar="KINDS",
        default="",
        help="also make symbol files of uploads: gsym, sym (Breakpad)",
    )
    who = parser.add_argument_group("access")
    who.add_argument(
        "--token-file", metavar="FILE", default="", help="file of tokens: each line has a SHA-256, scopes and a name"
    )
    who.add_argument("--open-read", action="store_true", help="allow everyone to read, even from other machines")
    who.add_argument("--no-uploads", action="store_true", help="refuse uploads")
    who.add_argument("--tls-cert", metavar="FILE", default="", help="certificate for HTTPS, with --tls-key")
    who.add_argument("--tls-key", metavar="FILE", default="", help="key of the certificate")
    who.add_argument(
        "--make-token", metavar="SCOPES", help="print a new token with these scopes and its line for the token file"
    )
    more = parser.add_argument_group("upstream servers and cache")
    more.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="URL",
        help="a debuginfod server for missing files (repeatable)",
    )
    more.add_argument(
        "--upstream-allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="build-ids to request upstream (default: all)",
    )
    more.add_argument("--forward", metavar="URL", default="", help="send named OTLP profiles to this URL")
    more.add_argument(
        "--keep", dest="cache_dir", metavar="DIR", help="folder for files downloaded from a bucket (default: the cache)"
    )
    more.add_argument(
        "--keep-size",
        type=gibibytes,
        default=4.0,
        metavar="GIB",
        help="size limit of that folder (4; see docs/scale.md)",
    )

    parser.examples(
        "whence serve --open                            your own store, at http://127.0.0.1:8002/",
        "whence serve /srv/symbols --port 8080 --workers 4",
        "whence serve --make-token read,upload          print a token",
        "whence serve s3://symbols/prod --host 0.0.0.0 --token-file tokens --tls-cert cert.pem --tls-key key.pem",
    )


def run(options: Namespace) -> int:
    try:
        import starlette  # noqa: F401

        from whence.server.access import is_loopback
        from whence.server.run import serve
        from whence.server.settings import ServerSettings
        from whence.store.writer import symbol_kinds
    except ImportError as error:
        raise WrongUse(f"{error.name} is not installed: pip install 'whence[server]'") from None
    if options.make_token:
        from whence.server.access import make_token

        token, line = make_token(options.make_token, "who")
        print(f"token: {token}\nline:  {line}")
        return ANSWERED
    if bool(options.tls_cert) != bool(options.tls_key):
        raise WrongUse("--tls-cert and --tls-key must be given together")
    local = is_loopback(options.host)
    settings = ServerSettings(
        store=existing_store(options.store, create=options.create),
        cache=cache_root(options),
        cache_bytes=int(options.keep_size * (1 << 30)),
        upstreams=tuple(options.upstream),
        upstream_allow=tuple(options.upstream_allow) or ("*",),
        forward=options.forward,
        token_file=options.token_file,
        open_read=options.open_read or (local and not options.token_file),
        also=symbol_kinds(filter(None, options.also.split(","))),
        uploads=not options.no_uploads and (local or bool(options.token_file)),
    )

    def announce(url: str) -> None:
        print(f"whence serve: {plain(settings.store)} at {url}", file=sys.stderr)
        if options.open:
            from threading import Thread

            from whence.cli.browser import open_when_listening

            Thread(target=open_when_listening, args=(url,), daemon=True).start()

    tls = (options.tls_cert, options.tls_key) if options.tls_cert else None
    serve(
        settings, host=options.host, port=options.port, by=options.by, tls=tls, workers=options.workers,
        announce=announce,
    )  # fmt: skip
    return ANSWERED
