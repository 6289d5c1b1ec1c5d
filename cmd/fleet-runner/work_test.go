package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// runTask runs a task, gives each of its questions the same answer, and returns the task's output and outcome.
func (w *testRunner) runTask(ctx context.Context, a fleet.Runner, r fleet.Run, answer string) (string, fleet.Outcome) {
	w.t.Helper()
	require.NoError(w.t, a.Dispatch(ctx, r))
	output := ""
	o, err := a.Follow(ctx, r, "", func(out fleet.Output) error {
		if q := out.Question; q != nil && q.Status == fleet.QuestionWaiting {
			answeredQuestion := *q
			answeredQuestion.ID, answeredQuestion.TaskID, answeredQuestion.Answer, answeredQuestion.AnsweredBy = r.TaskID+"-"+q.ID, r.TaskID, answer, "alice"
			return a.Answer(ctx, r, answeredQuestion)
		}
		output += out.Text
		return nil
	})
	require.NoError(w.t, err)
	return output, o
}

// TestAuthor checks that an agent can commit in a workspace whose user has no git configuration.
func TestAuthor(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"XDG_CONFIG_HOME", "EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	w := newTestRunner(t, "-driver", "shell")
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	dir := filepath.Join(w.dir, "work")
	// Without useConfigOnly, git guesses an author on some machines.
	runScript(t, "git init -q -b main "+dir+"; git -C "+dir+" config user.useConfigOnly true")
	a := w.client.Connect(fleet.Agent{UID: "agent-1", Name: "papi"})
	commit := "git commit -q --allow-empty -m one; git log -1 --format='%an <%ae>'"
	_, o := w.runTask(ctx, a, fleet.Run{TaskID: "task-1", Timeout: waittest.Limit, Prompt: commit}, "")
	require.Equal(t, "papi (Fleet) <fleet@localhost>", o.Summary, "%+v", o)
	runScript(t, "cd "+dir+"; git config user.name Ada; git config user.email ada@example.com")
	_, o = w.runTask(ctx, a, fleet.Run{TaskID: "task-2", Timeout: waittest.Limit, Prompt: commit}, "")
	require.Equal(t, "Ada <ada@example.com>", o.Summary, "%+v", o)
}

// TestWork runs an agent that asks a question, and then changes files in a repository. The runner must report the changes. After a
// restart, it must return them as a patch and as a bundle, and run checks on them.
func TestWork(t *testing.T) {
	w := newTestRunner(t, "-driver", "shell", "-ask", "-allow", "Bash(ls)")
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	a := w.client.Connect(fleet.Agent{UID: "agent-1", Name: "papi"})
	first := fleet.Run{TaskID: "task-1", Timeout: waittest.Limit, Prompt: `"$FLEET_ASK" permission Bash '{"command":"ls"}'; "$FLEET_ASK" question 'tabs or spaces?' tabs spaces`}
	output, o := w.runTask(ctx, a, first, "tabs")
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Contains(t, output, "tabs")
	c, err := a.Changes(ctx, first)
	require.NoError(t, err)
	require.Nil(t, c, "there must be no changes without a repository")

	dir := filepath.Join(w.dir, "work")
	runScript(t, "git init -q -b main "+dir+"; cd "+dir+"; git config user.name a; git config user.email a@example.com; echo one >file; git add file; git commit -qm one")
	r := fleet.Run{TaskID: "task-2", Timeout: waittest.Limit, Prompt: "echo two >file; git commit -qam two; echo new >made"}
	_, o = w.runTask(ctx, a, r, "")
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	c, err = a.Changes(ctx, r)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 2, 1}, []int{c.FileCount, c.Commits, c.Insertions, c.Deletions})
	require.Equal(t, []string{"file", "made"}, []string{c.FileChanges[0].Path, c.FileChanges[1].Path})
	require.Equal(t, "main", c.Branch)
	require.True(t, c.Dirty)
	require.False(t, c.Pushed)

	w.restart()
	patch, more, err := a.Patch(ctx, *c, "made", 0, 1<<20)
	require.NoError(t, err)
	require.False(t, more)
	require.Contains(t, string(patch), "+new\n")
	for command, want := range map[string]fleet.CheckStatus{"grep new made": fleet.CheckPassed, "echo no; exit 3": fleet.CheckFailed} {
		res, err := a.Check(ctx, r, fleet.Check{ID: string(want), Command: command, Timeout: waittest.Limit})
		require.NoError(t, err)
		require.Equal(t, want, res.Status, "%+v", res)
	}
	var bundle bytes.Buffer
	require.NoError(t, a.Bundle(ctx, &bundle))
	path := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, os.WriteFile(path, bundle.Bytes(), 0o600))
	heads := runScript(t, "git bundle list-heads "+path)
	require.Contains(t, heads, c.Commit+" "+c.Ref)
	require.Contains(t, heads, "refs/heads/main")
}

// TestAgentClientProtocol runs an agent program that speaks the Agent Client Protocol and asks for a permission.
func TestAgentClientProtocol(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	w := newTestRunner(t, "-driver", "acp", "-command", exe, "-command", "peer", "-command", "load", "-ask")
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
	defer cancel()
	a := w.client.Connect(fleet.Agent{UID: "agent-1", Name: "papi"})
	output, o := w.runTask(ctx, a, fleet.Run{TaskID: "task-1", Timeout: waittest.Limit, Prompt: "say Let me see.\nask t1 execute ls -l\nsay All well."}, fleet.AnswerAllow)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Contains(t, output, "Let me see.\n")
	require.Contains(t, output, "selected yes\nAll well.\n")
	_, o = w.runTask(ctx, a, fleet.Run{TaskID: "task-2", Timeout: waittest.Limit, Prompt: "say Go on."}, "")
	require.Equal(t, "Go on.", o.Summary)
}
