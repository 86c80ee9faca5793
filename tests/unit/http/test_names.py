import pytest
from fastapi import Depends, FastAPI, Request
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from ops.http.names import KeepSlashes, restore_slashes


class Outside:
    """Notes the route of each request after it was served, as the metrics do."""

    routes: list[str]

    def __init__(self, app: ASGIApp, routes: list[str]) -> None:
        self._app, self.routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            self.routes.append(getattr(scope.get("route"), "path", "none"))


@pytest.fixture
def routes() -> list[str]:
    return []


@pytest.fixture
def client(routes: list[str]) -> TestClient:
    app = FastAPI(dependencies=[Depends(restore_slashes)])

    @app.get("/v1/agents/{agent_id}/memories")
    async def memories(agent_id: str, request: Request) -> tuple[str, str]:
        return agent_id, request.scope["path"]

    @app.get("/console/runs/{run_id}")
    async def run(run_id: str) -> str:
        return run_id

    app.add_middleware(KeepSlashes)
    app.add_middleware(Outside, routes=routes)
    return TestClient(app)


@pytest.mark.parametrize(
    ("sent", "agent"),
    [("team%2Fada", "team/ada"), ("%2f", "/"), ("a%2Fb%3Fc%C3%A9", "a/b?cé"), ("ada", "ada")],
)
def test_an_escaped_slash_is_part_of_a_name(client: TestClient, routes: list[str], sent: str, agent: str) -> None:
    answer = client.get(f"/v1/agents/{sent}/memories?q=%2F")
    assert answer.json() == [agent, f"/v1/agents/{agent}/memories"]
    assert routes == ["/v1/agents/{agent_id}/memories"]


@pytest.mark.parametrize("path", ["/console/runs/a%2Fb", "/v1/agents/a/b/memories", "/v1/%2F"])
def test_where_no_name_has_a_slash_nothing_is_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404
