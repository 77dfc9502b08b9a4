"""`whence mcp`: a server of the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError, WrongUse
from whence._base.streams import shortened
from whence._base.words import plain
from whence._version import __version__
from whence.cli.main import ANSWERED
from whence.cli.options import add_locator_options

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from whence.cli.mcp_tools import Tools
    from whence.cli.parser import Parser

TOOLS = ("open", "top", "callers", "list", "diff", "name", "stacks")
INSTRUCTIONS = """Answers questions about profiles (perf.data, pprof and others), core dumps and minidumps, and programs
with debug info. Call open first: it says what a file is and which tools answer for it. Paths are absolute, or relative
to an allowed folder. If names are missing, give the program or its debug file in binaries."""


def configure(parser: Parser) -> None:
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder whose files requests may read, with the folders in it (repeatable; required)",
    )
    add_locator_options(parser)
    parser.epilog = "needs mcp: pip install 'whence[mcp]'"
    parser.examples(
        "whence mcp --root ~/src/app",
        "whence mcp --root . --root /var/crash --store /srv/symbols",
    )


def run(options: Namespace) -> int:
    """Answer requests until stdin ends."""
    if not options.root:
        raise WrongUse("give the folders that may be read: whence mcp --root DIR")
    from whence.cli.mcp_files import AllowedFolders

    allowed = AllowedFolders(options.root)
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError as error:
        raise WrongUse(f"{error.name} is not installed, or too old: pip install 'whence[mcp]'") from None
    from whence.cli.mcp_tools import Tools
    from whence.cli.mcp_transport import serve

    server = server_of(Tools(allowed, options))
    print(f"whence mcp: reading files below {', '.join(map(plain, allowed.folders))}", file=sys.stderr)
    serve(server)
    return ANSWERED


def server_of(tools: Tools) -> MCPServer:
    """Return a server with the tools. Raises ImportError without mcp."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    def reported(tool: Callable[..., str]) -> Callable[..., str]:
        """Return a tool whose errors a client sees as its answer."""

        @wraps(tool)
        def answer(*args: object, **fields: object) -> str:
            try:
                return tool(*args, **fields)
            except (WhenceError, OSError, ValueError, LookupError, ImportError) as error:
                raise ToolError(message_of(error)) from None
            except MemoryError:
                raise ToolError("not enough memory") from None

        return answer

    server = MCPServer("whence", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    about = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for name in TOOLS:
        tool = getattr(tools, name)
        server.add_tool(reported(tool), description=getdoc(tool), annotations=about, structured_output=False)
    return server


def message_of(error: Exception) -> str:
    """Return an error for a client, with its remedy."""
    text = shortened(plain(error.args[0] if isinstance(error, LookupError) and error.args else error))
    hint = getattr(error, "hint", "")
    return f"{text} ({hint})" if hint else text
