PRAGMA foreign_keys=OFF;
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL DEFAULT 0,
    namespace TEXT NOT NULL,
    principal TEXT NOT NULL,
    task_type TEXT NOT NULL,
    request TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    idempotency_key TEXT,
    root_id TEXT REFERENCES jobs (job_id),
    shard INTEGER,
    state TEXT NOT NULL CHECK (
        state IN ('queued', 'dispatching', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out')
    ),
    priority TEXT NOT NULL CHECK (priority IN ('interactive', 'background')),
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    backend TEXT NOT NULL,
    backend_id TEXT NOT NULL DEFAULT '',
    backend_unknown INTEGER NOT NULL DEFAULT 0,
    token TEXT NOT NULL DEFAULT '',
    tier TEXT NOT NULL DEFAULT '',
    qos TEXT NOT NULL DEFAULT '',
    model_profile TEXT NOT NULL DEFAULT '',
    stage TEXT NOT NULL DEFAULT '',
    percent REAL NOT NULL DEFAULT 0,
    metrics TEXT NOT NULL DEFAULT '{}',
    plan TEXT NOT NULL DEFAULT '{}',
    cache TEXT NOT NULL DEFAULT '{}',
    error TEXT,
    warnings TEXT NOT NULL DEFAULT '[]',
    retry TEXT,
    classification TEXT NOT NULL DEFAULT '',
    pack_artifact TEXT NOT NULL DEFAULT '',
    cancel_requested INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX jobs_idempotency ON jobs (namespace, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_queue ON jobs (priority, namespace, seq) WHERE state = 'queued';
CREATE INDEX jobs_live ON jobs (namespace, state) WHERE state IN ('queued', 'dispatching', 'running');
CREATE INDEX jobs_by_namespace ON jobs (namespace, seq);
CREATE INDEX jobs_by_root ON jobs (root_id, seq) WHERE root_id IS NOT NULL;
CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES jobs (job_id) ON DELETE CASCADE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_job ON events (job_id, seq);

CREATE TABLE artifacts (
    artifact_id TEXT PRIMARY KEY,
    public_id TEXT NOT NULL DEFAULT '',
    job_id TEXT NOT NULL REFERENCES jobs (job_id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    created_at REAL NOT NULL,
    classification TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX artifacts_by_job ON artifacts (job_id);
CREATE INDEX artifacts_by_public_id ON artifacts (namespace, public_id) WHERE public_id <> '';

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    namespace TEXT NOT NULL,
    principal TEXT NOT NULL,
    action TEXT NOT NULL,
    job_id TEXT NOT NULL,
    detail TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

PRAGMA user_version=1;
INSERT INTO jobs (job_id, namespace, principal, task_type, request, request_hash, state, priority, attempt,
    created_at, updated_at, started_at, finished_at, backend, tier, warnings)
VALUES ('job_01KW0000000000000000000000', 'local', 'local', 'rag_compress', '{"query":"q"}', 'h', 'succeeded',
    'interactive', 1, 1.5, 2.5, 1.6, 2.5, 'local', 'cpu-rag-indexing',
    '[{"code":"LOW_COVERAGE","message":"m","stage":"retrieval"}]');
INSERT INTO jobs (job_id, namespace, principal, task_type, request, request_hash, state, priority,
    created_at, updated_at, backend, tier)
VALUES ('job_01KW0000000000000000000001', 'local', 'local', 'rag_compress', '{"query":"q"}', 'h', 'queued',
    'background', 1.5, 2.5, 'local', 'cpu-rag-indexing');
INSERT INTO events (job_id, at, kind, data) VALUES ('job_01KW0000000000000000000000', 1.5, 'queued', '{}');
INSERT INTO events (job_id, at, kind, data) VALUES ('job_01KW0000000000000000000000', 2.5, 'attempt_ended', '{}');
