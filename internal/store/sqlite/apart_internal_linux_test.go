package sqlite

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestApartDuringCollection collects garbage on the thread with its own table of files. There, too, the runtime polls the
// network with a file of its own, and ends the process if that is closed.
func TestApartDuringCollection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the runtime polls from then on
	require.NoError(t, err)
	defer l.Close()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, apart(path, unix.O_RDONLY, func(int) error { runtime.GC(); return nil }))
}
