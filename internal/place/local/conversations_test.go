package local_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// storeTranscript is a shell script that stores a transcript where Claude Code does.
const storeTranscript = `dir="$HOME/.claude/projects/$(pwd -P | tr -c 'A-Za-z0-9\n' -)"; mkdir -p "$dir"; echo said >"$dir/s-1.jsonl"`

// transcripts returns the paths of the transcripts that storeTranscript has stored.
func transcripts(t *testing.T, w *claudePlace) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(w.homeDir, ".claude", "projects", "*", "s-1.jsonl"))
	require.NoError(t, err)
	return found
}

func TestDeleteRemovesTranscripts(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	a, other := w.provisionIn("claude"), w.provisionIn("claude")
	w.script("s-1", storeTranscript, claudeInit, claudeDone)
	w.follow(a, w.start(a, "one"))
	w.follow(other, w.start(other, "two"))
	require.Len(t, transcripts(t, w), 2)
	_, err := w.Delete(t.Context(), a)
	require.NoError(t, err)
	left := transcripts(t, w)
	require.Len(t, left, 1)
	require.Contains(t, left[0], other.UID)
}

// TestDeleteKeepsOnlyResults checks that the files of an agent's work outlive it, but not its conversation.
func TestDeleteKeepsOnlyResults(t *testing.T) {
	t.Parallel()
	w := newClaudePlace(t, local.Role{})
	a := w.provision(configuredAgent(fleet.AgentConfig{Driver: "claude", KeepFilesFor: time.Hour}))
	w.script("s-1", storeTranscript+"; echo made >made", claudeInit, claudeDone)
	w.follow(a, w.start(a, "one"))
	require.Len(t, transcripts(t, w), 1)
	_, err := w.Delete(t.Context(), a)
	require.NoError(t, err)
	require.Empty(t, transcripts(t, w))
	kept, err := filepath.Glob(filepath.Join(w.dir, "results", "*", "made"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestDeleteDoesNotFollowSymlinks(t *testing.T) {
	t.Parallel()
	w, a := newClaudeAgent(t)
	w.script("s-1", storeTranscript, claudeInit, claudeDone)
	w.follow(a, w.start(a, "one"))
	projects, elsewhere := filepath.Join(w.homeDir, ".claude", "projects"), filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.Rename(projects, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, projects)) // an agent could create such a link
	_, err := w.Delete(t.Context(), a)
	require.NoError(t, err, "Delete must succeed even if the transcripts cannot be removed")
	require.Len(t, transcripts(t, w), 1)
}
