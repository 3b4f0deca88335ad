"""All that is served of a real database, asked without a network: guard, access, application, store."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import add_token, create_api_token, remove_token
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.server import protected_application
from evenbeat.model import Instant
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import RoleName

HERE = "127.0.0.1"


class InProcessServer:
    """`with InProcessServer(folder) as asked: asked("GET", "/v1/tasks")`; its clock stands still until it is moved."""

    def __init__(self, folder: Path, host: str = HERE, *, is_secure: bool = False, is_open: bool = True) -> None:
        self._store = SqliteStore(folder / "asked.db")
        self.context = ApiContext(folder / "asked.db")
        self.admin = TaskAdmin(self._store, self.context.now)
        self.now = 1_000.0
        self.access = TokenAuthenticator(self.context, host, is_secure=is_secure, is_open=is_open, now=lambda: self.now)
        self.app = protected_application(self.context, self.access)
        scheme = "https" if is_secure else "http"
        self.url = f"{scheme}://{host}:8629"

    def __call__(
        self, method: str, path: str, token: str | None = None, *, client: str = HERE, **more: Any
    ) -> httpx.Response:
        """One request, and its answer."""
        if token is not None:
            more["headers"] = {"authorization": f"Bearer {token}", **more.get("headers", {})}
        return asyncio.run(self._ask(method, path, client, more))

    async def _ask(self, method: str, path: str, client: str, more: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, client=(client, 40_000))
        async with httpx.AsyncClient(transport=transport, base_url=self.url) as asking:
            return await asking.request(method, path, **more)

    def token(self, name: str, role: RoleName, expires: Instant | None = None) -> str:
        """A new one, known from now on."""
        new = create_api_token(name, role, self.context.now(), expires)
        add_token(self.admin, new.id, new.token, "ana")
        self.later(3)
        return new.text

    def remove(self, name: str) -> None:
        remove_token(self.admin, name, "ana")

    def later(self, seconds: float) -> None:
        self.now += seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.context.close()
        self._store.close()
