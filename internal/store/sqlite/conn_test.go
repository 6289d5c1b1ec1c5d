package sqlite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecretAfterManyStatements reads a secret on a connection that keeps no further statement prepared.
func TestSecretAfterManyStatements(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	require.NoError(t, s.write(t.Context(), func(c *conn) error {
		for i := range maxStmts {
			if _, err := c.stmt(t.Context(), fmt.Sprintf("SELECT %d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 2 {
		stored, err := s.EnsureSecret(t.Context(), "key", []byte("value"))
		require.NoError(t, err)
		require.Equal(t, []byte("value"), stored)
	}
}
