package worktree

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErrorsAreBounded checks that an agent cannot fill the server's memory with error messages of git.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	b := tailBuffer{}
	n, err := b.Write(bytes.Repeat([]byte("x"), 2*maxMessage))
	require.NoError(t, err, "git must not end because it reports many errors")
	require.Equal(t, 2*maxMessage, n)
	_, err = b.Write([]byte("fatal: the reason"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(b.text), maxMessage)
	require.Contains(t, b.String(), "fatal: the reason")
}
