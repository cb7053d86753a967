"""Settings of the broker: read once from a TOML file, the environment and flags, rising precedence.

A setting's environment name, TOML key and meaning stand in its field's metadata; `docs/operations.md`
lists each, and a test checks that it does.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from agentloop.config import Caps, Policy, Sandbox
from broker.values import NamespaceRules, SettingsError, convert, namespace_rules

DEFAULT_PORT = 8787
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def default_home(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/agentloop`, by default under `~/.local/state`."""
    state = environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "agentloop"


def _setting(env: str, doc: str, default: Any) -> Any:
    return field(default=default, metadata={"env": env, "doc": doc})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings with their defaults. Lists in the environment are separated as in `PATH`."""

    home: str = _setting("BROKER_HOME", "folder of database, run directories, caches, audit, tokens", "")
    listen: str = _setting("BROKER_LISTEN", "HOST:PORT that `serve` listens on", f"127.0.0.1:{DEFAULT_PORT}")
    allowed_roots: tuple[str, ...] = _setting(
        "BROKER_ALLOWED_ROOTS", "folders that jobs may read, for namespaces without roots of their own", ()
    )
    auth: str = _setting("BROKER_AUTH", "`token`, or `none` on loopback only", "token")
    cache: str = _setting("AGENTLOOP_CACHE", "`on` or `off`", "on")
    cache_max_mb: int = _setting("BROKER_CACHE_MAX_MB", "bound of the cache in MiB", 2048)
    cache_records: bool = _setting(
        "BROKER_CACHE_RECORDS", "whether record sources (conversations) may be cached", False
    )
    backend: str = _setting("BROKER_BACKEND", "default backend: `local` or `slurm`", "local")
    workers: int = _setting("BROKER_WORKERS", "local jobs at once; 0: one a core", 0)
    worker_memory_mb: int = _setting("BROKER_WORKER_MEMORY_MB", "address space of a local worker", 8192)
    worker_file_mb: int = _setting("BROKER_WORKER_FILE_MB", "largest file that a worker may write", 2048)
    warm_hosts: int = _setting(
        "BROKER_WARM_HOSTS", "sets of inputs kept read and indexed in memory between jobs; 0: none", 4
    )
    max_queued: int = _setting("BROKER_MAX_QUEUED", "unfinished jobs of all namespaces; above: 429", 50_000)
    max_queued_per_namespace: int = _setting(
        "BROKER_MAX_QUEUED_PER_NAMESPACE", "unfinished jobs of one namespace; above: 429", 20_000
    )
    max_body_bytes: int = _setting(
        "BROKER_MAX_BODY_BYTES", "largest request body, also decompressed", 4 << 20
    )
    max_attempts: int = _setting("BROKER_MAX_ATTEMPTS", "attempts of a job before it fails", 3)
    heartbeat_seconds: int = _setting(
        "BROKER_HEARTBEAT_SECONDS", "a worker that is silent for longer is stopped and retried", 60
    )
    drain_seconds: int = _setting("BROKER_DRAIN_SECONDS", "how long SIGTERM waits for running jobs", 25)
    busy_timeout_ms: int = _setting(
        "BROKER_BUSY_TIMEOUT_MS", "how long a locked database is waited for", 5000
    )
    retention_days: int = _setting(
        "BROKER_RETENTION_DAYS", "finished jobs and their run directories are kept so long; 0: for ever", 30
    )
    shard_mb: int = _setting("BROKER_SHARD_MB", "inputs above this are split into child jobs", 512)
    shard_files: int = _setting(
        "BROKER_SHARD_FILES", "inputs with more files than this are split into child jobs", 50_000
    )
    shard_inputs: int = _setting("BROKER_SHARD_INPUTS", "more inputs than this are split into child jobs", 16)
    allowed_hosts: tuple[str, ...] = _setting(
        "BROKER_ALLOWED_HOSTS", "names besides loopback that the Host header may carry", ()
    )
    allowed_origins: tuple[str, ...] = _setting(
        "BROKER_ALLOWED_ORIGINS", "origins besides our own that a browser may call from", ()
    )
    oauth_issuer: str = _setting(
        "BROKER_OAUTH_ISSUER", "issuer whose access tokens (JWT) are accepted too; empty: none", ""
    )
    oauth_resource: str = _setting(
        "BROKER_OAUTH_RESOURCE", "URL of /mcp as clients use it: the audience that tokens must have", ""
    )
    oauth_jwks_file: str = _setting(
        "BROKER_OAUTH_JWKS_FILE", "file with the issuer's public keys (JWK set)", ""
    )
    follow_hard_links: bool = _setting(
        "BROKER_FOLLOW_HARD_LINKS", "whether files with several hard links are read", False
    )
    max_file_mb: int = _setting("BROKER_MAX_FILE_MB", "code and document files above are skipped", 10)
    max_total_mb: int = _setting("BROKER_MAX_TOTAL_MB", "bytes that one job may read, in MiB", 2048)
    max_files: int = _setting("BROKER_MAX_FILES", "files that one job may read", 200_000)
    max_log_mb: int = _setting("BROKER_MAX_LOG_MB", "logs above are skipped, in MiB", 8192)
    max_record_chars: int = _setting(
        "BROKER_MAX_RECORD_CHARS",
        "characters of records that one job may read; the newest are kept",
        20_000_000,
    )
    max_extracted_mb: int = _setting(
        "BROKER_MAX_EXTRACTED_MB", "MiB that a document or an archive may hold when it is unpacked", 64
    )
    validation_sandbox: bool = _setting(
        "BROKER_VALIDATION_SANDBOX",
        "whether `validation_commands` of patch requests are run, on a throw-away copy without a network",
        False,
    )
    validation_seconds: int = _setting("BROKER_VALIDATION_SECONDS", "time of one such command", 120)
    validation_memory_mb: int = _setting(
        "BROKER_VALIDATION_MEMORY_MB", "MiB that its processes, and its copy, may take", 2048
    )
    validation_processes: int = _setting("BROKER_VALIDATION_PROCESSES", "its processes at once", 256)
    validation_path: str = _setting(
        "BROKER_VALIDATION_PATH", "PATH of such commands; empty: `/usr/local/bin:/usr/bin:/bin`", ""
    )
    slurm_mode: str = _setting("BROKER_SLURM_MODE", "how Slurm is reached: `command`", "command")
    slurm_script_path: str = _setting(
        "BROKER_SLURM_SCRIPT_PATH", "batch script of a worker; empty: the one in the package", ""
    )
    slurm_partition_cpu: str = _setting("BROKER_SLURM_PARTITION_CPU", "partition of cpu-rag-indexing", "")
    slurm_partition_p40: str = _setting("BROKER_SLURM_PARTITION_P40", "partition of p40-rag-compression", "")
    slurm_partition_a100: str = _setting("BROKER_SLURM_PARTITION_A100", "partition of a100-reasoning", "")
    slurm_nodelist_p40: str = _setting("BROKER_SLURM_NODELIST_P40", "nodes preferred for the P40 tier", "")
    slurm_account: str = _setting("BROKER_SLURM_ACCOUNT", "account to charge; empty: the user's default", "")
    slurm_max_runs: int = _setting("BROKER_SLURM_MAX_RUNS", "runs in Slurm's queue at once", 2000)
    slurm_array_running: int = _setting(
        "BROKER_SLURM_ARRAY_RUNNING", "tasks of one array that run at once; 0: no bound", 50
    )
    slurm_array_size: int = _setting(
        "BROKER_SLURM_ARRAY_SIZE", "tasks of one array at most; 0: the cluster's MaxArraySize", 0
    )
    slurm_poll_seconds: int = _setting("BROKER_SLURM_POLL_SECONDS", "seconds between two squeue calls", 2)
    slurm_start_seconds: int = _setting(
        "BROKER_SLURM_START_SECONDS", "a run that is pending longer fails with GPU_TIER_UNAVAILABLE", 1800
    )
    slurm_vram_p40_mb: int = _setting(
        "BROKER_SLURM_VRAM_P40_MB", "MiB of a P40 that a model may take; 22,919 with ECC on", 22_900
    )
    slurm_vram_a100_mb: int = _setting(
        "BROKER_SLURM_VRAM_A100_MB", "MiB of an A100 that a model may take; 40 GB cards: 40,000", 81_000
    )
    slurm_chain_mb: int = _setting(
        "BROKER_SLURM_CHAIN_MB",
        "MiB of inputs from which a run on a GPU is prepared by a job on the CPU tier; 0: never",
        256,
    )
    slurm_services: tuple[str, ...] = _setting(
        "BROKER_SLURM_SERVICES", "model profiles that a warm service may serve; empty: none", ()
    )
    slurm_service_idle_seconds: int = _setting(
        "BROKER_SLURM_SERVICE_IDLE_SECONDS", "a warm service that nobody used for longer ends", 600
    )
    slurm_service_seconds: int = _setting(
        "BROKER_SLURM_SERVICE_SECONDS", "time limit of a warm service's job", 14_400
    )
    slurm_qos_preemptible: str = _setting(
        "BROKER_SLURM_QOS_PREEMPTIBLE", "cluster's name for `preemptible`; empty: none is passed", ""
    )
    slurm_qos_normal: str = _setting(
        "BROKER_SLURM_QOS_NORMAL", "cluster's name for `normal`; empty: none is passed", ""
    )
    slurm_qos_high: str = _setting(
        "BROKER_SLURM_QOS_HIGH", "cluster's name for `high`; empty: none is passed", ""
    )
    model_profile_cpu: str = _setting("BROKER_MODEL_PROFILE_CPU", "model of cpu-rag-indexing", "")
    model_profile_p40: str = _setting("BROKER_MODEL_PROFILE_P40", "model of p40-rag-compression", "")
    model_profile_a100: str = _setting("BROKER_MODEL_PROFILE_A100", "model of a100-reasoning", "")
    embeddings_profile: str = _setting(
        "BROKER_EMBEDDINGS_PROFILE", "profile of kind `embeddings` for the strategy of that name", ""
    )
    rerank_profile: str = _setting(
        "BROKER_RERANK_PROFILE", "profile of kind `rerank`; empty: the rules alone rank", ""
    )
    model_profiles_file: str = _setting(
        "BROKER_MODEL_PROFILES_FILE", "TOML file that defines the model profiles", ""
    )
    namespaces: tuple[tuple[str, NamespaceRules], ...] = ()

    @property
    def home_path(self) -> Path:
        """`BROKER_HOME` as a path."""
        return Path(self.home)

    @property
    def host_port(self) -> tuple[str, int]:
        """`listen` split; an IPv6 host may stand in brackets.

        Raises:
            SettingsError: it is not HOST:PORT.
        """
        host, _, port = self.listen.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdigit() or int(port) > 65535:
            raise SettingsError(f"BROKER_LISTEN is HOST:PORT, not {self.listen!r}")
        return host, int(port)

    @property
    def worker_count(self) -> int:
        """Local jobs at once."""
        return self.workers or max(1, os.cpu_count() or 1)

    def rules(self, namespace: str) -> NamespaceRules:
        """The rules of a namespace; one without a table has the defaults and `allowed_roots`."""
        found = dict(self.namespaces).get(namespace, NamespaceRules(cache_records=self.cache_records))
        return found if found.roots else replace(found, roots=self.allowed_roots)

    def policy(self, namespace: str) -> Policy:
        """The engine's policy for a namespace. Its mode names what shapes a pack, for keys and packs."""
        rules = self.rules(namespace)
        mode = "evidence_only" if rules.allow_excerpts else "no_excerpts"
        mode += "_validated" if self.validation_sandbox else ""
        return Policy(
            mode=mode if rules.allow_paths else f"{mode}_ids",
            allowed_roots=rules.roots,
            default_classification=rules.default_classification,
            classification_rules=rules.classification_rules,
            allow_excerpts=rules.allow_excerpts,
            allow_paths=rules.allow_paths,
            cache_records=rules.cache_records,
            namespace=namespace,
            sandbox=self.sandbox(),
        )

    def sandbox(self) -> Sandbox | None:
        """Bounds of validation commands; None where the operator did not allow them."""
        if not self.validation_sandbox:
            return None
        return Sandbox(
            self.validation_seconds,
            self.validation_memory_mb,
            self.validation_processes,
            self.validation_path,
        )

    def caps(self) -> Caps:
        """The engine's caps."""
        return Caps(
            max_file_bytes=self.max_file_mb * 1_000_000,
            max_total_bytes=self.max_total_mb << 20,
            max_files=self.max_files,
            max_log_bytes=self.max_log_mb << 20,
            max_record_chars=self.max_record_chars,
            max_extracted_bytes=self.max_extracted_mb << 20,
            follow_hard_links=self.follow_hard_links,
        )


def setting_fields() -> tuple[Field[Any], ...]:
    """The fields that are settings, in order."""
    return tuple(f for f in fields(Settings) if "env" in f.metadata)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise SettingsError(f"the settings file {path} can't be read: {exc.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise SettingsError(f"the settings file {path} is not TOML: {exc}") from None


def load(
    environ: Mapping[str, str], flags: Mapping[str, Any] | None = None, file: Path | None = None
) -> Settings:
    """Settings from a TOML file, the environment and flags (by field name; None: not given).

    The file is `file`, or what `BROKER_CONFIG` names, or `BROKER_HOME/broker.toml` where it exists.

    Raises:
        SettingsError: the file can't be read, or a value can't be used.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    home = Path(given.get("home") or environ.get("BROKER_HOME") or default_home(environ)).expanduser()
    named = file or (Path(environ["BROKER_CONFIG"]) if environ.get("BROKER_CONFIG") else None)
    usual = home / "broker.toml"
    table = _toml(named) if named else (_toml(usual) if usual.exists() else {})
    namespaces = table.pop("namespaces", {})
    known = {f.name: f for f in setting_fields()}
    for name in table:
        if name not in known:
            raise SettingsError(f"the settings file has an unknown key {name!r}")
    values: dict[str, Any] = {}
    for name, found in known.items():
        env = str(found.metadata["env"])
        for place, source, key in (("file", table, name), ("env", environ, env), ("flag", given, name)):
            if key in source:
                label = env if place != "file" else name
                values[name] = convert(label, source[key], found.default)
    values["home"] = str(Path(values.get("home") or home).expanduser().absolute())
    values["allowed_roots"] = tuple(
        str(Path(root).expanduser().absolute()) for root in values.get("allowed_roots", ())
    )
    values["namespaces"] = tuple((name, namespace_rules(name, rules)) for name, rules in namespaces.items())
    return _checked(Settings(**values))


def _checked(settings: Settings) -> Settings:
    from broker import oauth

    host, _ = settings.host_port
    if settings.auth not in {"token", "none"}:
        raise SettingsError("BROKER_AUTH is `token` or `none`")
    if settings.auth == "none" and host not in LOOPBACK:
        raise SettingsError(
            "BROKER_AUTH=none is for loopback only; listen on 127.0.0.1 or use BROKER_AUTH=token"
        )
    if settings.cache not in {"on", "off"}:
        raise SettingsError("AGENTLOOP_CACHE is `on` or `off`")
    if settings.backend not in {"local", "slurm"}:
        raise SettingsError("BROKER_BACKEND is `local` or `slurm`")
    if wrong := oauth.check_settings(settings):
        raise SettingsError(wrong)
    if not (settings.shard_mb and settings.shard_files and settings.shard_inputs):
        raise SettingsError("BROKER_SHARD_MB, BROKER_SHARD_FILES and BROKER_SHARD_INPUTS are at least 1")
    if settings.max_attempts < 1:
        raise SettingsError("BROKER_MAX_ATTEMPTS is at least 1")
    return settings
