"""Authorization: tokens with scopes; the token file has their hashes.

A line of the token file is `SHA256 SCOPES NAME`: the token's SHA-256 in hex, scopes joined by commas (read, upload,
admin), a name for the log. `whence serve --make-token` prints a token and its line.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets

from whence._base.errors import FormatError, WrongUse
from whence._base.files import open_input

SCOPES = ("read", "upload", "admin")
READ, UPLOAD, ADMIN = SCOPES
HASH = re.compile(r"[0-9a-f]{64}")
LONGEST = 1 << 20  # bytes of a token file
TOKEN_BYTES = 32


class Token:
    """A line of the token file."""

    def __init__(self, digest: str, scopes: frozenset[str], name: str) -> None:
        self.digest, self.scopes, self.name = digest, scopes, name


class Access:
    """The permissions of clients. Without a file all clients have all scopes; with `open_read` all may read."""

    def __init__(
        self, token_file: str = "", *, open_read: bool = False, everyone: frozenset[str] = frozenset()
    ) -> None:
        self.tokens = read_tokens(token_file) if token_file else []
        self.everyone = everyone if token_file else frozenset(SCOPES)
        if open_read:
            self.everyone |= {READ}

    def scopes(self, authorization: str) -> tuple[frozenset[str], str]:
        """Return the scopes and the name for an Authorization header ("" for none); `everyone` for an unknown token."""
        kind, _, token = authorization.strip().partition(" ")
        if kind.lower() == "bearer" and token.strip():
            digest = digest_of(token.strip())
            for token_line in self.tokens:
                if hmac.compare_digest(token_line.digest, digest):
                    return token_line.scopes | self.everyone, token_line.name
        return self.everyone, ""

    def is_own(self, authorization: str) -> bool:
        """Return True if an Authorization header has one of this server's tokens."""
        return bool(self.scopes(authorization)[1])


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """Read a token file; blank lines and comments (#) are skipped. Raises WrongUse, OSError."""
    with open_input(path, FormatError) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise WrongUse(f"{os.fspath(path)}: a token file has at most {LONGEST} bytes")
    tokens = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        words = line.split(None, 2)
        if not words or words[0].startswith("#"):
            continue
        scopes = frozenset(words[1].split(",")) if len(words) > 1 else frozenset()
        if not HASH.fullmatch(words[0]) or not scopes or not scopes <= {*SCOPES}:
            raise WrongUse(
                f"{os.fspath(path)}, line {number}: expected SHA-256, scopes ({', '.join(SCOPES)}) and a name"
            )
        tokens.append(Token(words[0], scopes, words[2].strip() if len(words) > 2 else f"line {number}"))
    if not tokens:
        error = WrongUse(f"{os.fspath(path)}: the token file has no tokens")
        raise error.with_hint("make one with whence serve --make-token")
    return tokens


def make_token(scopes: str, name: str) -> tuple[str, str]:
    """Return a new token, and its line for the token file. Raises WrongUse for unknown scopes."""
    if not {*scopes.split(",")} <= {*SCOPES}:
        raise WrongUse(f"scopes are a comma-separated list of {', '.join(SCOPES)}, not {scopes!r}")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, f"{digest_of(token)} {scopes} {name}"


def is_loopback(host: str) -> bool:
    """Return True if an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
