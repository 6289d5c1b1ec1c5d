package postgres_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/loopback/loopbacktest"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// TestPooler connects through PgBouncer. The store must refuse the mode in which each transaction can get another connection,
// and work in the mode in which a client keeps its connection.
func TestPooler(t *testing.T) {
	t.Parallel()
	const program = "/usr/sbin/pgbouncer" // of Debian's package
	if _, err := os.Stat(program); err != nil {
		t.Skip("PgBouncer is not installed: `make test-postgres` installs it together with Postgres")
	}
	pgtest.SkipUnlessEnabled(t)
	server, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	for _, mode := range []string{"transaction", "session"} {
		host, port, err := net.SplitHostPort(loopbacktest.Address(t))
		require.NoError(t, err)
		config := filepath.Join(server.Dir, mode+".ini")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
postgres = host=%s dbname=postgres user=fleet
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = %s
`, server.Dir, host, port, mode), 0o644)) //nolint:gosec // another user reads it
		pooler := server.Command(program, config)
		require.NoError(t, pooler.Start())
		t.Cleanup(func() { _ = pooler.Process.Kill(); _ = pooler.Wait() })
		url := fmt.Sprintf("postgres://fleet@%s/postgres?sslmode=disable", net.JoinHostPort(host, port))
		waittest.Until(t, "PgBouncer gives no signal that it listens", func() bool {
			c, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		if mode == "transaction" {
			requireRefused(t, url, "a pooler between Fleet and the database gives each transaction another connection")
		} else {
			s := openAt(t, url, postgres.Config{})
			_, err := appendEvent(t.Context(), s, "through a pooler")
			require.NoError(t, err)
		}
	}
}
