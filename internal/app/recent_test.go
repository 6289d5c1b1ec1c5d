package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecent checks that the last lines of the log are kept, in order.
func TestRecent(t *testing.T) {
	t.Parallel()
	r := &recentLog{next: io.Discard}
	for i := range recentLines + 3 {
		_, err := fmt.Fprintf(r, "line %d\n", i)
		require.NoError(t, err)
	}
	lines := strings.Split(strings.TrimSpace(string(r.text())), "\n")
	require.Len(t, lines, recentLines)
	require.Equal(t, []string{"line 3", fmt.Sprintf("line %d", recentLines+2)}, []string{lines[0], lines[recentLines-1]})
	_, err := r.Write(bytes.Repeat([]byte("x"), 1<<20))
	require.NoError(t, err)
	require.Less(t, len(r.text()), recentLines*20+maxLineBytes+10, "a long line must be cut")
}
