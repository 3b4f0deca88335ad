"""Ask the application as a client would, in this process."""

import asyncio
from typing import Any, NamedTuple

import httpx
from starlette.requests import Request

from evenbeat.api.application import ROUTES, create_application
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Authenticator, Role
from evenbeat.core.scope import Scope


class FakeCaller(NamedTuple):
    who: str
    role: Role
    scope: Scope | None = None


class RoleNameAuthenticator:
    """Knows three words, one for each role; everybody is limited to the scope, if there is one."""

    def __init__(self, scope: Scope | None = None) -> None:
        self._scope = scope

    async def authenticate(self, request: Request, role: Role) -> FakeCaller:
        word = request.headers.get("authorization", "").removeprefix("Bearer ")
        found = {"reader": Role.READ, "operator": Role.OPERATE, "admin": Role.ADMIN}.get(word, Role.ANYBODY)
        if found < role:
            raise HttpError(403 if found else 401, f"{word or 'nobody'} may not")
        return FakeCaller(word, found, self._scope)

    async def is_still_authorized(self, request: Request) -> bool:
        return True


class ApiClient:
    """Asks the application as a client would, one request after the other."""

    def __init__(
        self, context: ApiContext, authenticator: Authenticator, routes: Any = ROUTES, who: str = "admin"
    ) -> None:
        self.app = create_application(context, authenticator, routes)
        self.context = context
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {who}"}
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **more)

    def add(self, name: str, **keys: Any) -> httpx.Response:
        """A task that does nothing, once a day."""
        answer = self.post("/v1/tasks", json={"name": name, "every": "1d", "command": ["noop"], **keys})
        assert answer.status_code == 201, answer.text
        return answer

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
