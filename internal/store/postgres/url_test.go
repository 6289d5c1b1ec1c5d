package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres"
)

// TestRedact checks Redact and HasPassword.
func TestRedact(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://fleet:hunter2@h/db":                  "postgres://fleet:xxxxx@h/db",
		"postgres://h/db?user=fleet&password=hunter2":    "postgres://h/db?password=xxxxx&user=fleet",
		"postgres://fleet@h/db":                          "postgres://fleet@h/db",
		"postgres://h/db?sslpassword=hunter2":            "postgres://h/db?sslpassword=xxxxx",
		"postgres://fleet:hunter2@[::1/db":               "postgres://",
		"postgres://fleet:hun%zzter2@h/db?sslmode=false": "postgres://",
	} {
		require.Equal(t, want, postgres.Redact(url))
		require.Equal(t, strings.Contains(url, "hun"), postgres.HasPassword(url), url)
	}
}

// TestWrongURL checks that the error for a URL says what is wrong with it, without its passwords.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://fleet:hunter2@h/db?sslmode=foo":                                "sslmode",
		"postgres://fleet:hunter2@h/db?sslrootcert=/none/here":                     "/none/here",
		"postgres://fleet:hunter2@h/db?connect_timeout=5s":                         "connect_timeout",
		"postgres://fleet:hunter2@h/db?pool_max_conns=0":                           "pool_max_conns",
		"postgres://fleet:hunter2@[::1/db":                                         "write it like",
		"postgres://h/db?sslcert=/none/here&sslkey=/none/here&sslpassword=hunter2": "/none/here",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Config{})
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
