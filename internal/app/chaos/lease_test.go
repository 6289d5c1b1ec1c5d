package chaos

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// watchLeasesSQL makes the database record each lease that another server takes before it has expired, and each output
// that a server writes without the lease on the agent. Such faults rarely show in the event log, because other guards
// hide their effects. Servers connect with their name as application_name.
const watchLeasesSQL = `
CREATE TABLE lease_servers (owner text PRIMARY KEY, server text NOT NULL);
CREATE TABLE lease_problems (text text NOT NULL);
CREATE FUNCTION watch_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO lease_servers VALUES (NEW.owner, current_setting('application_name')) ON CONFLICT DO NOTHING;
	IF TG_OP = 'UPDATE' AND OLD.owner <> NEW.owner AND OLD.until > clock_timestamp() THEN
		INSERT INTO lease_problems VALUES (format('%s took the lease %s, which another server had for %s more', current_setting('application_name'), NEW.key, OLD.until - clock_timestamp()));
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER watch_lease AFTER INSERT OR UPDATE OF owner ON leases FOR EACH ROW EXECUTE FUNCTION watch_lease();
CREATE FUNCTION watch_output() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NOT EXISTS (SELECT FROM leases JOIN lease_servers USING (owner) WHERE key = 'agent/' || NEW.agent_uid AND server = current_setting('application_name')) THEN
		INSERT INTO lease_problems VALUES (format('%s wrote output of %s without the lease on it', current_setting('application_name'), NEW.agent_name));
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER watch_output AFTER INSERT ON inbox FOR EACH ROW WHEN (NEW.type = 'task_output') EXECUTE FUNCTION watch_output();
`

// watchLeases begins the recording. It must be called after the servers have created their tables, and before they have
// leases on agents.
func (d *database) watchLeases(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), d.primary().URL("postgres"))
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), watchLeasesSQL)
	require.NoError(t, err)
}

// leaseProblems returns the recorded problems, and how many different owners of leases there were. The next
// process of a server is another owner.
func (d *database) leaseProblems(t *testing.T) (problems []string, owners int) {
	conn, err := pgx.Connect(t.Context(), d.primary().URL("postgres"))
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT text FROM lease_problems`)
	require.NoError(t, err)
	problems, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM lease_servers`).Scan(&owners))
	return problems, owners
}
