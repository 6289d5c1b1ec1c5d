package postgres

import (
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestRefusedConnections checks the error if the database refuses a connection. If the server has a problem, the error
// must be BACKEND_UNAVAILABLE, whatever the code. For a wrong password or database, the error must be another one, because
// a retry does not help.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]fleet.Reason{
		"XX000": fleet.ReasonBackendUnavailable, // could not write init file: the disk is full
		"58P01": fleet.ReasonBackendUnavailable,
		"53300": fleet.ReasonBackendUnavailable,
		"57P03": fleet.ReasonBackendUnavailable,
		"28P01": fleet.ReasonInternal,
		"3D000": fleet.ReasonInternal,
	} {
		_, err := pgx.Connect(t.Context(), "postgres://fleet@"+startRefusingServer(t, code)+"/fleet?sslmode=disable")
		require.Error(t, err)
		require.Equal(t, want, fleet.ReasonOf(translate(err)), "%s: %v", code, err)
	}
}

// startRefusingServer starts a server that refuses connections with the code of Postgres, and returns its address.
func startRefusingServer(t *testing.T, code string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(conn, conn)
			_, _ = b.ReceiveStartupMessage()
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "refused"})
			_ = b.Flush()
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
