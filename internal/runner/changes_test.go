package runner

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/worktree"
)

// treeWorkspace is a Workspace with only a tree.
type treeWorkspace struct {
	Workspace
	tree *Tree
}

func (w treeWorkspace) Tree() (*Tree, error) { return w.tree, nil }

// TestCompareErrors checks that only a missing commit means that the changes do not exist.
func TestCompareErrors(t *testing.T) {
	t.Parallel()
	git, err := worktree.Program()
	if err != nil {
		t.Skip(err)
	}
	repository := t.TempDir()
	require.NoError(t, exec.Command(git, "init", "-q", repository).Run())
	for temp, want := range map[string]fleet.Reason{
		t.TempDir():                             fleet.ReasonChangesNotFound,
		filepath.Join(t.TempDir(), "not there"): fleet.ReasonBackendUnavailable,
	} {
		ws := treeWorkspace{tree: &Tree{Tree: worktree.Tree{Repository: repository}, Git: worktree.New(nil, temp)}}
		_, err := new(Host).Agent("papi", Home(t.TempDir()), ws).Compare(t.Context(), strings.Repeat("1", 40), strings.Repeat("2", 40))
		require.Equal(t, want, fleet.ReasonOf(err), "%v", err)
	}
}
