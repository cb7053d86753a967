-- A job of the first release ran agentically, and its number of tool calls is not known.
ALTER TABLE jobs ADD COLUMN mode TEXT NOT NULL DEFAULT 'agentic';
ALTER TABLE jobs ADD COLUMN tool_calls INTEGER;
