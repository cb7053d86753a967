"""What an input may be named by."""

from __future__ import annotations

import pytest

from agentloop.errors import AgentloopError, ErrorCode
from agentloop.sources.uri import absolute_path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/srv/data", "/srv/data"),
        ("/srv//data/./x/", "/srv/data/x"),
        ("file:///srv/data", "/srv/data"),
        ("file:/srv/data", "/srv/data"),
        ("FILE:///srv/a%20b", "/srv/a b"),
        ("file:///srv/%E7%B5%90", "/srv/結"),
        ("/srv/100%/a", "/srv/100%/a"),
        ("/srv/a%20b", "/srv/a%20b"),
        ("/srv/v1..v2", "/srv/v1..v2"),
        ("/srv/x:y", "/srv/x:y"),
        ("/", "/"),
    ],
)
def test_local_paths_are_taken(uri: str, path: str) -> None:
    assert absolute_path(uri, "in1") == path


@pytest.mark.req("B1")
@pytest.mark.req("F4")
@pytest.mark.parametrize(
    "uri",
    [
        "../etc/passwd",
        "relative/path",
        ".",
        "/srv/../etc/passwd",
        "/srv/..",
        "file:///srv/../etc/passwd",
        "file:///srv/%2e%2e/etc/passwd",
        "file:///srv/%2E%2E/etc",
        "file:///srv/.%2e/etc",
        "/srv/%2e%2e/etc/passwd",
        "file:///srv/%252e%252e/etc",
        "/srv/%252e%252e/etc",
        "/srv/%25252e%25252e/etc",
        "file:///srv%2fdata",
        "file:///srv/a%00b",
        "/srv/a\0b",
        "/srv/a%5cb",
        "/srv\\..\\etc",
        "file://host/srv",
        "file://localhost/srv",
        "file:////host/srv",
        "//host/share",
        "~/data",
        "~root/x",
        "/~/data",
        "file:///~root",
        "http://127.0.0.1/x",
        "https://example.org/x",
        "ftp://example.org/x",
        "ssh://git@example.org/x.git",
        "git+ssh://example.org/x",
        "s3://bucket/key",
        "jdbc:mysql://h/x",
        "data:text/plain,x",
        "C:\\Windows",
    ],
)
def test_everything_else_is_refused_unopened(uri: str) -> None:
    with pytest.raises(AgentloopError) as raised:
        absolute_path(uri, "in3")
    assert raised.value.code is ErrorCode.INPUT_DISCOVERY_FAILED
    assert raised.value.details == {"input_id": "in3", "reason": "path_not_allowed"}
    assert raised.value.message.startswith("in3: ")
