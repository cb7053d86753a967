-- name: insert_job
INSERT INTO jobs (
    job_id, namespace, principal, task_type, request, request_hash, idempotency_key, root_id, shard,
    state, priority, created_at, updated_at, backend, tier, qos, model_profile, mode, plan, cache,
    warnings, classification
) VALUES (
    :job_id, :namespace, :principal, :task_type, :request, :request_hash, :idempotency_key, :root_id, :shard,
    :state, :priority, :created_at, :updated_at, :backend, :tier, :qos, :model_profile, :mode, :plan, :cache,
    :warnings, :classification
);

-- name: update_job
UPDATE jobs SET
    version = version + 1, state = :state, priority = :priority, attempt = :attempt,
    failures = :failures, updated_at = :updated_at, started_at = :started_at,
    finished_at = :finished_at, backend = :backend, backend_id = :backend_id,
    backend_unknown = :backend_unknown, token = :token, tier = :tier, qos = :qos,
    model_profile = :model_profile, mode = :mode, tool_calls = :tool_calls, stage = :stage,
    percent = :percent, metrics = :metrics, plan = :plan, cache = :cache, error = :error,
    warnings = :warnings, retry = :retry, classification = :classification,
    pack_artifact = :pack_artifact, cancel_requested = :cancel_requested
WHERE job_id = :job_id AND version = :version;

-- name: get_job
SELECT * FROM jobs WHERE job_id = :job_id;

-- name: job_by_key
SELECT * FROM jobs WHERE namespace = :namespace AND idempotency_key = :idempotency_key;

-- name: count_live
SELECT
    coalesce((SELECT jobs FROM live WHERE namespace = :namespace), 0),
    coalesce((SELECT sum(jobs) FROM live), 0);

-- name: count_all_live
SELECT namespace, state, count(*) FROM jobs
WHERE state IN ('queued', 'dispatching', 'running') GROUP BY namespace, state;

-- name: live_jobs
SELECT * FROM jobs WHERE state IN ('dispatching', 'running') ORDER BY seq;

-- name: queued_namespaces
SELECT namespace FROM live
WHERE jobs > 0 AND EXISTS (
    SELECT 1 FROM jobs
    WHERE jobs.state = 'queued' AND jobs.priority = :priority AND jobs.namespace = live.namespace
        AND jobs.job_id NOT IN (SELECT value FROM json_each(:held))
        AND jobs.backend NOT IN (SELECT value FROM json_each(:full))
);

-- name: next_queued
SELECT * FROM jobs
WHERE state = 'queued' AND priority = :priority AND namespace = :namespace
    AND job_id NOT IN (SELECT value FROM json_each(:held))
    AND backend NOT IN (SELECT value FROM json_each(:full))
ORDER BY seq LIMIT 1;

-- name: list_jobs
SELECT * FROM jobs
WHERE namespace = :namespace AND seq < :before
    AND (:state IS NULL OR state = :state)
    AND (:task_type IS NULL OR task_type = :task_type)
    AND (:root_id IS NULL OR root_id = :root_id)
ORDER BY seq DESC LIMIT :limit;

-- name: children
SELECT * FROM jobs WHERE root_id = :root_id ORDER BY shard, seq;

-- name: unfinished_children
SELECT * FROM jobs
WHERE root_id = :root_id AND state IN ('queued', 'dispatching', 'running') ORDER BY shard, seq;

-- name: insert_event
INSERT INTO events (job_id, at, kind, data) VALUES (:job_id, :at, :kind, :data);

-- name: events_after
SELECT * FROM events WHERE job_id = :job_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: insert_artifact
INSERT INTO artifacts (
    artifact_id, public_id, job_id, namespace, kind, name, path, sha256, size, created_at, classification, metadata
) VALUES (
    :artifact_id, :public_id, :job_id, :namespace, :kind, :name, :path, :sha256, :size, :created_at, :classification,
    :metadata
);

-- name: get_artifact
SELECT * FROM artifacts WHERE namespace = :namespace AND artifact_id = :id
UNION ALL
SELECT * FROM (
    SELECT * FROM artifacts WHERE namespace = :namespace AND public_id = :id AND public_id <> ''
    ORDER BY created_at DESC LIMIT 1
)
LIMIT 1;

-- name: job_artifacts
SELECT * FROM artifacts WHERE job_id = :job_id ORDER BY name;

-- name: last_audit
SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1;

-- name: insert_audit
INSERT INTO audit (seq, at, namespace, principal, action, job_id, detail, previous, hash)
VALUES (:seq, :at, :namespace, :principal, :action, :job_id, :detail, :previous, :hash);

-- name: all_audit
SELECT * FROM audit ORDER BY seq;

-- name: get_meta
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: expired_jobs
SELECT job_id FROM jobs
WHERE finished_at IS NOT NULL AND finished_at < :before AND root_id IS NULL LIMIT :limit;

-- name: delete_children
DELETE FROM jobs WHERE root_id = :job_id;

-- name: delete_job
DELETE FROM jobs WHERE job_id = :job_id;
