"""Settings: precedence, types, refusals, and that each is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentloop.config import Caps
from broker.config import load, setting_fields
from broker.values import SettingsError

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_flags_win_over_the_environment_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text('workers = 3\nlisten = "127.0.0.1:1"\nmax_attempts = 5\n')
    found = load(
        {"BROKER_HOME": str(tmp_path), "BROKER_WORKERS": "4", "BROKER_LISTEN": "127.0.0.1:2"},
        {"listen": "127.0.0.1:3", "workers": None},
    )
    assert (found.workers, found.listen, found.max_attempts) == (4, "127.0.0.1:3", 5)
    assert found.host_port == ("127.0.0.1", 3)
    assert found.home == str(tmp_path)


def test_defaults_are_loopback_and_token(tmp_path: Path) -> None:
    found = load({"BROKER_HOME": str(tmp_path)})
    assert found.host_port[0] == "127.0.0.1"
    assert (found.auth, found.cache, found.backend, found.allowed_roots) == ("token", "on", "local", ())


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"BROKER_LISTEN": "nowhere"}, "BROKER_LISTEN"),
        ({"BROKER_AUTH": "maybe"}, "BROKER_AUTH"),
        ({"BROKER_AUTH": "none", "BROKER_LISTEN": "0.0.0.0:1"}, "loopback"),
        ({"AGENTLOOP_CACHE": "perhaps"}, "AGENTLOOP_CACHE"),
        ({"BROKER_WORKERS": "many"}, "BROKER_WORKERS"),
        ({"BROKER_WORKERS": "-1"}, "BROKER_WORKERS"),
        ({"BROKER_MAX_ATTEMPTS": "0"}, "BROKER_MAX_ATTEMPTS"),
        ({"BROKER_CONFIG": "/nowhere/broker.toml"}, "/nowhere/broker.toml"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, environ: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load({"BROKER_HOME": str(tmp_path), **environ})


def test_unknown_keys_of_the_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("wrokers = 3\n")
    with pytest.raises(SettingsError, match="wrokers"):
        load({"BROKER_HOME": str(tmp_path)}, file=file)
    file.write_text('[namespaces.red]\nroots = ["/a"]\ncolour = 1\n')
    with pytest.raises(SettingsError, match="red"):
        load({"BROKER_HOME": str(tmp_path)}, file=file)


def test_a_namespace_has_its_own_rules_and_roots(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        'allowed_roots = ["/shared"]\n'
        '[namespaces.red]\nroots = ["/red"]\ndefault_classification = "restricted"\nallow_paths = false\n'
        '[namespaces.red.classification_rules]\n"*.key" = "secret_adjacent"\n'
    )
    found = load({"BROKER_HOME": str(tmp_path)}, file=file)
    red, other = found.policy("red"), found.policy("other")
    assert red.allowed_roots == ("/red",)
    assert other.allowed_roots == ("/shared",)
    assert (str(red.default_classification), red.allow_paths) == ("restricted", False)
    assert red.mode != other.mode
    assert red.namespace == "red"


def test_every_setting_is_documented() -> None:
    text = DOCS.read_text("utf-8")
    missing = [f.metadata["env"] for f in setting_fields() if f"`{f.metadata['env']}`" not in text]
    assert missing == []


def test_every_cap_of_the_design_is_a_setting() -> None:
    given = {
        "BROKER_MAX_FILE_MB": "1",
        "BROKER_MAX_TOTAL_MB": "2",
        "BROKER_MAX_FILES": "3",
        "BROKER_MAX_LOG_MB": "4",
        "BROKER_MAX_RECORD_CHARS": "5",
        "BROKER_MAX_EXTRACTED_MB": "6",
    }
    caps = load({"HOME": "/nowhere", **given}).caps()
    assert (caps.max_file_bytes, caps.max_total_bytes, caps.max_files) == (1_000_000, 2 << 20, 3)
    assert (caps.max_log_bytes, caps.max_record_chars, caps.max_extracted_bytes) == (4 << 20, 5, 6 << 20)
    defaults = load({"HOME": "/nowhere"}).caps()
    assert defaults == Caps()


def test_a_wrong_classification_of_a_namespace_is_told_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text('[namespaces.x]\ndefault_classification = "secret"\n')
    with pytest.raises(SettingsError, match="there is no classification 'secret'; there are public"):
        load({"BROKER_HOME": str(tmp_path)})


def test_a_home_with_a_tilde_has_its_settings_file_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "broker.toml").write_text("workers = 3\n")
    assert load({"BROKER_HOME": "~"}).workers == 3
