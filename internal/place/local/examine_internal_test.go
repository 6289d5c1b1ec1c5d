package local

import (
	"log/slog"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamineManyDirectories checks that work counts as unsaved if the survey of the home cannot describe it.
func TestExamineManyDirectories(t *testing.T) {
	t.Parallel()
	h := home(t.TempDir())
	require.NoError(t, os.Symlink(t.TempDir(), h.workDir()))
	for i := range 200 {
		require.NoError(t, os.Mkdir(h.join(strconv.Itoa(i)), 0o700))
	}
	p := &Place{config: Config{Logger: slog.New(slog.DiscardHandler)}}
	e, err := p.examine(t.Context(), h, &record{Ready: true})
	require.NoError(t, err)
	require.Equal(t, "files that cannot be examined", e.unsaved())
}
