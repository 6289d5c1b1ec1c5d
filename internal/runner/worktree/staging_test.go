package worktree

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManyDirectories checks that the limit of untracked files also holds for many small directories, and that choosing
// the files takes a time in proportion to their number.
func TestManyDirectories(t *testing.T) {
	t.Parallel()
	paths := make([]string, 300_000)
	for i := range paths {
		paths[i] = fmt.Sprintf("d%06d/file", i)
	}
	s := staging{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.addNew(paths)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.FailNow(t, "it takes too long")
	}
	require.Equal(t, maxNewFiles, len(s.paths)) //nolint:testifylint // Len would print all paths
	require.Len(t, s.left, maxLeftOut)
}

// TestErrorsAreBounded checks that an agent cannot fill the server's memory with error messages of git.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	b := tail{}
	n, err := b.Write(bytes.Repeat([]byte("x"), 2*maxMessage))
	require.NoError(t, err, "git must not end because it reports many errors")
	require.Equal(t, 2*maxMessage, n)
	_, err = b.Write([]byte("fatal: the reason"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(b.text), maxMessage)
	require.Contains(t, b.String(), "fatal: the reason")
}
