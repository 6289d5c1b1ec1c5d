package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnpackBundle unpacks bundles whose headers have a line that is longer than the buffer of the reader.
func TestUnpackBundle(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	for _, subject := range []int{10, 4096 - len("- ") - 40, 10_000} { // the second makes a line of exactly one buffer and a line feed
		t.Run(fmt.Sprint(subject), func(t *testing.T) {
			t.Parallel()
			from, to, bundle := newRepository(t), t.TempDir(), filepath.Join(t.TempDir(), "bundle")
			sh(t, from, fmt.Sprintf("printf '%%%dd' 1 | tr ' ' x | git commit -q --allow-empty -F -; git clone -q --bare . %s", subject, to))
			sh(t, from, "echo two >file; git commit -qam two; git bundle create -q "+bundle+" main~..main")
			in, err := os.Open(bundle)
			require.NoError(t, err)
			defer func() { _ = in.Close() }()
			require.NoError(t, g.Unpack(t.Context(), to, revision(t, from, "main"), in))
			require.Equal(t, "two\n", sh(t, to, "git show "+revision(t, from, "main")+":file"))
		})
	}
}
