package sessions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/sessions"
)

// TestDirectory checks that an agent works in the directory of its session, and that other directories are refused.
func TestDirectory(t *testing.T) {
	t.Parallel()
	src, elsewhere := t.TempDir(), t.TempDir()
	h := newHarness(t, func(h *harness) { h.cfg.Directories, h.cfg.PrivateDir = []string{src}, filepath.Join(src, "data") })
	h.define("reviewer.yaml", strings.Replace(h.document("Reviews."), "think}", "filesystem}", 1)+"permissions: {allow: [write_file]}\n")
	for _, dir := range []string{"shop", "data/inner"} {
		require.NoError(t, os.MkdirAll(filepath.Join(src, dir), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(src, "shop", "main.go"), []byte("package shop"), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(src, "out")))
	require.NoError(t, os.Symlink(filepath.Join(src, "shop"), filepath.Join(src, "link")))

	for _, dir := range []string{filepath.Join(src, "shop"), filepath.Join(src, "link")} {
		x, err := h.svc.Create(h.as("alice"), "reviewer", "", "", sessions.Location{Directory: dir})
		require.NoError(t, err)
		a := h.say("alice", x.ID, `model: tools [{"name":"read_file","input":{"path":"main.go"}},{"name":"write_file","input":{"path":"review.md","content":"Fine."}}]`+"\nmodel: say read")
		require.Equal(t, "read", a.Text)
		var results []string
		for _, c := range a.Contents {
			if c.Result != nil {
				results = append(results, c.Result.Text)
			}
		}
		require.Equal(t, "package shop", results[0])
		b, err := os.ReadFile(filepath.Join(src, "shop", "review.md"))
		require.NoError(t, err)
		require.Equal(t, "Fine.", string(b))
		info, err := h.svc.Info(h.as("alice"), x.ID)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(src, "shop"), info.Directory)
		require.NoError(t, h.svc.Close(h.as("alice"), x.ID))
	}
	h.WaitStored(func() bool { return h.countAgents() == 0 })
	require.FileExists(t, filepath.Join(src, "shop", "main.go"), "the directory must remain after its session is closed")

	for _, dir := range []string{
		elsewhere, filepath.Join(src, "out"), filepath.Join(src, "data"), filepath.Join(src, "data", "inner"), src, filepath.Join(src, "none"),
		filepath.Join(src, "shop", "main.go"), "/", "shop", "~", "~/none", "a\x00b",
	} {
		_, err := h.svc.Create(h.as("alice"), "reviewer", "", "", sessions.Location{Directory: dir})
		e := requireReason(t, err, fleet.ReasonInvalidArgument)
		require.Equal(t, "directory", e.Field, dir)
	}
}
