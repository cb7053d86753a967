-- Unfinished jobs by namespace, kept by triggers: quotas and fair turns look at one row, not at the queue.
CREATE TABLE live (
    namespace TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL
) STRICT;

INSERT INTO live (namespace, jobs)
SELECT namespace, count(*) FROM jobs
WHERE state IN ('queued', 'dispatching', 'running') GROUP BY namespace;

CREATE TRIGGER jobs_live_insert AFTER INSERT ON jobs
WHEN NEW.state IN ('queued', 'dispatching', 'running')
BEGIN
    INSERT INTO live (namespace, jobs) VALUES (NEW.namespace, 1)
    ON CONFLICT (namespace) DO UPDATE SET jobs = jobs + 1;
END;

CREATE TRIGGER jobs_live_update AFTER UPDATE OF state ON jobs
WHEN OLD.state IN ('queued', 'dispatching', 'running')
    AND NEW.state NOT IN ('queued', 'dispatching', 'running')
BEGIN
    UPDATE live SET jobs = jobs - 1 WHERE namespace = NEW.namespace;
END;

CREATE TRIGGER jobs_live_delete AFTER DELETE ON jobs
WHEN OLD.state IN ('queued', 'dispatching', 'running')
BEGIN
    UPDATE live SET jobs = jobs - 1 WHERE namespace = OLD.namespace;
END;
