"""Who may do what: tokens with scopes, of which the file knows hashes only.

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
    """A line of the file."""

    def __init__(self, digest: str, scopes: frozenset[str], name: str) -> None:
        self.digest, self.scopes, self.name = digest, scopes, name


class Access:
    """What each sender may do. Without a file everyone may do everything; with `open_read` everyone may read."""

    def __init__(
        self, token_file: str = "", *, open_read: bool = False, everyone: frozenset[str] = frozenset()
    ) -> None:
        self.tokens = read_tokens(token_file) if token_file else []
        self.everyone = everyone if token_file else frozenset(SCOPES)
        if open_read:
            self.everyone |= {READ}

    def scopes(self, authorization: str) -> tuple[frozenset[str], str]:
        """The scopes and the name of who sends an Authorization header ("" for none): `everyone` for a token that is
        not in the file."""
        kind, _, token = authorization.strip().partition(" ")
        if kind.lower() == "bearer" and token.strip():
            digest = digest_of(token.strip())
            for one in self.tokens:
                if hmac.compare_digest(one.digest, digest):
                    return one.scopes | self.everyone, one.name
        return self.everyone, ""

    def is_own(self, authorization: str) -> bool:
        """Whether an Authorization header has one of this server's tokens."""
        return bool(self.scopes(authorization)[1])


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """The tokens of a file; blank lines and those that begin with # are passed over. Raises WrongUse, OSError."""
    with open_input(path, FormatError) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise WrongUse(f"{os.fspath(path)}: more than {LONGEST} bytes are no token file")
    tokens = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        words = line.split(None, 2)
        if not words or words[0].startswith("#"):
            continue
        scopes = frozenset(words[1].split(",")) if len(words) > 1 else frozenset()
        if not HASH.fullmatch(words[0]) or not scopes or not scopes <= {*SCOPES}:
            raise WrongUse(
                f"{os.fspath(path)}, line {number}: not a token's SHA-256, its scopes ({', '.join(SCOPES)}) and a name"
            )
        tokens.append(Token(words[0], scopes, words[2].strip() if len(words) > 2 else f"line {number}"))
    if not tokens:
        raise WrongUse(f"{os.fspath(path)}: there is no token in it")
    return tokens


def make_token(scopes: str, name: str) -> tuple[str, str]:
    """A new token, and its line for the file. Raises WrongUse for scopes that there are not."""
    if not {*scopes.split(",")} <= {*SCOPES}:
        raise WrongUse(f"scopes are {', '.join(SCOPES)}, joined by commas; not {scopes!r}")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, f"{digest_of(token)} {scopes} {name}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
