"""`whence mcp` in this process, asked by the client of the mcp package."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from whence.cli.main import parser_of
from whence.cli.mcp import server_of
from whence.cli.mcp_files import AllowedFolders
from whence.cli.mcp_tools import Tools

mcp = pytest.importorskip("mcp", reason="mcp is not installed (it is not for every free-threaded Python)")


def tools_for(*folders: Path, options: tuple[str, ...] = ("--no-cache",)) -> Tools:
    from whence.cli import mcp as command

    return Tools(
        AllowedFolders([str(folder) for folder in folders]), parser_of("mcp", False, command).parse_args(options)
    )


def answered(tools: Tools, tool: str, fields: dict[str, object]) -> tuple[bool, str]:
    """Ask a server in this process, and return whether the answer is an error, and its text."""

    async def ask() -> tuple[bool, str]:
        async with mcp.Client(server_of(tools)) as client:
            result = await client.call_tool(tool, fields)
            return bool(result.is_error), result.content[0].text

    return asyncio.run(ask())
