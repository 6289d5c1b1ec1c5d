package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// newRepository creates a repository with one commit of the files. The function git runs git in it, and returns its output.
func newRepository(t *testing.T, files map[string]string) (path string, git func(args ...string) string) {
	t.Helper()
	path = t.TempDir()
	git = func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", path, "-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...) //nolint:gosec // the test's own repository
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(path, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(content), 0o600))
	}
	git("add", ".")
	git("commit", "-qm", "first")
	return path, git
}

// TestClaudeLanding follows the work of two Claude Code agents from their prompts until it has landed. One agent makes the changes
// that a review requests. The work of the other agent conflicts with it, so that agent rebases its work.
func TestClaudeLanding(t *testing.T) {
	installClaude(t) // may skip the test
	repo, git := newRepository(t, map[string]string{"a.txt": "first\n"})
	c := newClaudeFleetOn(t, newModel(t), repo, role{"name": "coder", "model": pricedModel, "default": true, "allowed_tools": []string{"Bash"}})
	c.create(t, "papi", "coder")
	c.create(t, "sony", "coder")
	commit := bash("git commit -qam work")

	papis := c.runTask(t, "papi", "Write.", bash("echo papi >a.txt"), commit, "model: say Written")
	require.Equal(t, fleetv1.Landing_branch, papis.GetLanding().GetState())
	reviewed, err := c.api.ReviewTask(t.Context(), &fleetv1.ReviewTaskRequest{
		TaskId: papis.GetId(), Verdict: fleetv1.Review_request_changes, Text: bash("echo better >a.txt") + "\n" + commit,
		Comments: []*fleetv1.ReviewComment{{Path: "a.txt", Line: 1, Text: "model: say Made better"}},
	})
	require.NoError(t, err)
	better := c.wait(t, reviewed.GetReview().GetNextTaskId())
	require.Equal(t, "Made better", better.GetSummary())
	require.Equal(t, fleetv1.Landing_review, better.GetLanding().GetState())

	// The prompt about the conflict quotes the lines of the file. They are the script for the model.
	resolve := bash("git rebase -q -X theirs main")
	sonys := c.runTask(t, "sony", "Write too.", bash("echo '"+resolve+"' >a.txt; echo 'model: say Rebased' >>a.txt"), commit, "model: say Written too")
	land, err := c.api.LandTasks(t.Context(), &fleetv1.LandTasksRequest{TaskIds: []string{better.GetId(), sonys.GetId()}})
	require.NoError(t, err)
	require.Len(t, land.GetTasks(), 2)
	afterLanding := func(id string) *fleetv1.TaskDetail {
		var task *fleetv1.TaskDetail
		waittest.Until(t, "landing gives no signal", func() bool {
			shown, err := c.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id})
			require.NoError(t, err)
			task = shown.GetTask()
			return task.GetLanding() != nil && task.GetLanding().GetState() != fleetv1.Landing_queued
		})
		return task
	}
	require.Equal(t, fleetv1.Landing_landed, afterLanding(better.GetId()).GetLanding().GetState())
	conflict := afterLanding(sonys.GetId()).GetLanding()
	require.Equal(t, "a.txt", conflict.GetConflicts()[0].GetPath())
	rebased := c.wait(t, conflict.GetNextTaskId())
	require.Equal(t, "Rebased", rebased.GetSummary(), rebased.GetReason())
	require.Equal(t, fleetv1.Landing_landed, afterLanding(rebased.GetId()).GetLanding().GetState())
	require.Equal(t, "2", git("rev-list", "--count", "main", "^main~2"))
	require.Contains(t, git("show", "main:a.txt"), "Rebased")
	require.Contains(t, git("show", "main~1:a.txt"), "better")
	require.Empty(t, git("status", "--porcelain"), "the working tree must follow the branch")
}
