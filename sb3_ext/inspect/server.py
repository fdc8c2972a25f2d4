"""Serves the page and what it asks for: runs, trainings, episodes, the playground."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.options import Integer, Options, read_options
from sb3_ext.inspect.page import make_page
from sb3_ext.inspect.training import training_facts
from sb3_ext.runs.registry import Registry

__all__ = ["LOOPBACK", "make_app"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_COOKIE = "sb3_ext_token"
#: A page of another site can't send it without asking first
_HEADER = "x-sb3-ext"
_MAX_RUNS = 500
_SHOWN = ("folder", "algo", "env", "state", "score", "best_score", "steps", "started", "seed", "solved")


class _Wanted(Options):
    """An episode, as the page asks for it."""

    run: str
    model: str | None = None
    seed: Integer = Field(default=0, ge=0, le=2**31)
    stochastic: Integer = Field(default=0, ge=0, le=1)
    saliency: Integer = Field(default=0, ge=0, le=1)
    max_steps: Integer = Field(default=3000, ge=1, le=30_000)


class _Server:
    """:param run: the run to start with, which need not be in the log folder"""

    def __init__(self, log_folder: Path, run: Path | None) -> None:
        self._log_folder = log_folder
        self._run = run
        self._playground: Any = None
        self._making = threading.Lock()

    def runs(self, request: Request) -> Response:
        entries = Registry(self._log_folder).entries()[:_MAX_RUNS] if self._log_folder.is_dir() else []
        runs = [{"run": entry["folder"], **{name: entry[name] for name in _SHOWN}} for entry in entries]
        first = None
        if self._run is not None:
            folders = {(self._log_folder / entry["run"]).resolve(): entry["run"] for entry in runs}
            first = folders.get(self._run.resolve(), str(self._run))
            if first not in [entry["run"] for entry in runs]:
                runs.insert(0, {"run": first, **dict.fromkeys(_SHOWN), "folder": self._run.name})
        return JSONResponse({"runs": runs, "first": first})

    def _folder_of(self, name: str) -> Path:
        """Only what :meth:`runs` lists: a name is never read as a path."""
        if self._run is not None and name == str(self._run):
            return self._run
        if any(entry["folder"] == name for entry in Registry(self._log_folder).entries()):
            return self._log_folder / name
        raise HTTPException(404, f"There is no run {name!r}.")

    def training(self, request: Request) -> Response:
        folder = self._folder_of(request.query_params.get("run", ""))
        return JSONResponse(_checked(lambda: training_facts(folder)))

    def episode(self, request: Request) -> Response:
        from sb3_ext.inspect.episode import Wanted, play_for_page
        from sb3_ext.runs.record import read_record

        asked = _checked(lambda: read_options(_Wanted, _numbers(request), "episode"))
        folder = self._folder_of(asked.run)
        wanted = Wanted(asked.model, asked.seed, not asked.stochastic, bool(asked.saliency), asked.max_steps)
        messages = play_for_page(_checked(lambda: read_record(folder)), wanted)
        first = _checked(lambda: next(messages))
        return StreamingResponse(_lines(first, messages), media_type="application/x-ndjson")

    def playground(self, request: Request) -> Response:
        return JSONResponse(self._get_playground().state())

    async def turn_knobs(self, request: Request) -> Response:
        if _HEADER not in request.headers:
            raise HTTPException(403, "This request does not come from the page.")
        try:
            asked = await request.json()
            action, knobs, task = asked["action"], dict(asked.get("knobs") or {}), str(asked.get("task"))
        except (ValueError, TypeError, KeyError):
            raise HTTPException(400, "Expected an action, a task and knobs, as JSON.") from None
        playground = await run_in_threadpool(self._get_playground)
        actions = {
            "start": lambda: playground.start(task, knobs),
            "set": lambda: playground.set(knobs),
            "stop": playground.stop,
        }
        if action not in actions:
            raise HTTPException(400, f"There is no action {action!r}.")
        await run_in_threadpool(_checked, actions[action])
        return JSONResponse(playground.state())

    def _get_playground(self) -> Any:
        from sb3_ext.inspect.playground import Playground

        with self._making:
            self._playground = self._playground or Playground()
            return self._playground


def make_app(log_folder: Path, run: Path | None = None, token: str | None = None) -> Starlette:
    """
    :param run: the run to start with
    :param token: what a visitor must know; ``None`` for a server that only this machine reaches
    """
    server = _Server(log_folder, run)
    routes = [
        Route("/", lambda request: HTMLResponse(make_page())),
        Route("/api/runs", server.runs),
        Route("/api/training", server.training),
        Route("/api/episode", server.episode),
        Route("/api/playground", server.playground, methods=["GET"]),
        Route("/api/playground", server.turn_knobs, methods=["POST"]),
    ]
    # Without a token, other names of this machine are refused: a page of another site may have got one
    guard = (
        Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])
        if token is None
        else Middleware(_TokenMiddleware, token=token)
    )
    return Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _answer_mistake})


class _TokenMiddleware:
    """Lets in who has the token, from the address at first and from a cookie afterwards."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.query_params.get("token") or request.cookies.get(_COOKIE) or ""
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            await PlainTextResponse("Open the address that sb3-ext inspect printed: it has a token.", 403)(
                scope, receive, send
            )
            return

        async def send_with_cookie(message: Any) -> None:
            if message["type"] == "http.response.start" and "token" in request.query_params:
                cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
                message["headers"] = [*message["headers"], (b"set-cookie", cookie.encode())]
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def _answer_mistake(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": printable(mask_passwords(str(error.detail)))}, error.status_code)


def _checked(do: Any) -> Any:
    """A mistake in what was asked for, or a broken run, is an answer."""
    try:
        return do()
    except (ValueError, TypeError, OSError) as error:
        raise HTTPException(400, str(error)) from error


def _numbers(request: Request) -> dict[str, Any]:
    known = dict(request.query_params)
    known.pop("token", None)
    return {
        name: int(text) if text.isdecimal() and name not in ("run", "model") else text for name, text in known.items()
    }


def _lines(first: dict[str, Any], messages: Iterator[dict[str, Any]]) -> Iterator[str]:
    yield json.dumps(first, allow_nan=False) + "\n"
    try:
        for message in messages:
            yield json.dumps(message, allow_nan=False) + "\n"
    # The answer has begun: the page must learn what happened from its last line
    except Exception as error:
        yield json.dumps({"error": printable(f"{type(error).__name__}: {error}")}) + "\n"
