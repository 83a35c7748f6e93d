-- Two roles for a rules database in PostgreSQL, besides the one that owns its tables and runs `limen rules migrate`:
--
--   limen          services and the command line: everything but what rewrites the past
--   limen_gateway  gateways: read, tell that they run, and write their samples and counts; no rule, no token
--
-- Run it as the owner, once the tables are there and again after each migration. Logins are members of a role:
--
--   CREATE USER limen_service PASSWORD '…' IN ROLE limen;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'limen') THEN CREATE ROLE limen; END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'limen_gateway') THEN CREATE ROLE limen_gateway; END IF;
END $$;

GRANT USAGE ON SCHEMA public TO limen, limen_gateway;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limen;
REVOKE UPDATE, DELETE, TRUNCATE ON audit, rule_versions FROM limen;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON alembic_version FROM limen;

GRANT SELECT ON ALL TABLES IN SCHEMA public TO limen_gateway;
REVOKE ALL ON tokens FROM limen_gateway;
GRANT INSERT, UPDATE, DELETE ON gateways, peaks, drills, samples, denials TO limen_gateway;
