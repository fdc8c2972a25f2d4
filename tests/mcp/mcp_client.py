"""A real ``sb3-ext mcp`` process, and the SDK's own client."""

import os
import sys
from contextlib import contextmanager

import anyio.from_thread
from mcp import Client
from mcp.client.stdio import StdioServerParameters

COMMAND = [sys.executable, "-m", "sb3_ext", "mcp"]


class Caller:
    """Calls tools from synchronous code."""

    def __init__(self, portal, client):
        self._portal, self._client = portal, client

    def tools(self):
        listed = self._portal.call(self._client.list_tools)
        return {tool.name: tool for tool in listed.tools}

    def result(self, tool, **arguments):
        return self._portal.call(self._client.call_tool, tool, arguments)

    def __call__(self, tool, **arguments):
        """Structured content, or text, or the picture's bytes in base64."""
        result = self.result(tool, **arguments)
        assert not result.is_error, result.content[0].text
        if result.structured_content is not None:
            return result.structured_content
        (content,) = result.content
        return content.text if content.type == "text" else content

    def error(self, tool, **arguments):
        result = self.result(tool, **arguments)
        assert result.is_error, result.content
        (content,) = result.content
        assert "Traceback" not in content.text
        return content.text


@contextmanager
def connected(server):
    """:param server: arguments of the command, or a server in this process"""
    if isinstance(server, list):
        server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *server], env=dict(os.environ))
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server)) as client,
    ):
        yield Caller(portal, client)
