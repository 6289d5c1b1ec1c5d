package npm

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	core "fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// startWorkspace starts fleet-runner as in a workspace, and returns the runner of the workspace's agent.
func startWorkspace(t *testing.T, h home, env []string, args ...string) core.Runner {
	t.Helper()
	program := h.path("fleet-runner")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/fleet-runner")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	address := freeAddress(t)
	work := h.path("work")
	out, err = exec.CommandContext(t.Context(), "sh", "-c", `git init -q -b main "$0" && cd "$0" && echo one >file && git add file && git -c user.name=a -c user.email=a@example.com commit -qm one`, work).CombinedOutput()
	require.NoError(t, err, "%s", out)

	serve := exec.Command(program, append([]string{"serve", "-listen", address, "-dir", work, "-key", base64.StdEncoding.EncodeToString(public)}, args...)...)
	serve.Env, serve.Stderr = h.env(env...), t.Output()
	require.NoError(t, serve.Start())
	transport := &http.Transport{}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
		transport.CloseIdleConnections()
	})
	client := remote.NewClient(remote.ClientConfig{URL: "http://" + address, Key: private, HTTP: &http.Client{Transport: transport}})
	return client.Connect(core.Agent{UID: "agent-1", Name: "papi", Spec: "Keep the tests honest"})
}

// TestClaudeInWorkspace lets Claude Code ask for a permission and for an answer through fleet-runner, and checks its
// text, its cost and its changes. Later tasks continue the conversation, with options and with attachments.
func TestClaudeInWorkspace(t *testing.T) {
	path, m, h := installClaude(t), newModel(t), newHome(t)
	a := startWorkspace(t, h, m.environ(), "-driver", "claude", "-command", path, "-model", pricedModel, "-permission-mode", "default", "-ask", "-deny", "Bash(rm *)")
	ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
	defer cancel()
	var options core.TaskOptions
	var attachments []core.Attachment
	runTask := func(id, prompt string, answers ...string) (string, []core.Question, core.Outcome) {
		r := core.Run{TaskID: id, Timeout: defaultTimeout, StartedAt: time.Now(), Prompt: prompt, Continues: id != "task-1", Options: options, Attachments: attachments}
		require.NoError(t, a.Dispatch(ctx, r))
		text, questions := "", []core.Question(nil)
		o, err := a.Follow(ctx, r, "", func(out core.Output) error {
			if q := out.Question; q != nil {
				if questions = append(questions, *q); q.Status != core.QuestionWaiting {
					return nil
				}
				given := *q
				given.ID, given.TaskID, given.Answer, given.AnsweredBy = id+"-"+q.ID, id, answers[0], "alice"
				answers = answers[1:]
				return a.Answer(ctx, r, given)
			}
			if !out.IsStep {
				text += out.Text
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, core.TaskCompleted, o.Status, o.Reason)
		return text, questions, o
	}
	text, questions, o := runTask("task-1", strings.Join([]string{
		"Ask before you act.",
		`model: tool Bash {"command":"echo new >made.txt"}`,
		`model: tool Bash {"command":"rm file"}`,
		`model: tool mcp__fleet-ask__ask_user {"question":"Tabs or spaces?","options":["tabs","spaces"]}`,
		`model: say | a | b |\n|---|---|\n| 1 | ` + strings.Repeat("long ", 40) + `|`,
	}, "\n"), "allow", "tabs")
	require.Contains(t, text, "| 1 | "+strings.Repeat("long ", 40)+"|\n")
	waiting := 0
	for _, q := range questions {
		if q.Status == core.QuestionWaiting {
			waiting++
		}
	}
	require.Equal(t, 2, waiting, "%+v", questions)
	require.Contains(t, m.requestsWith("Ask before you act.")[2].results()[1].Content.text(), "rm file")
	require.InDelta(t, 4*answerCost, o.CostUSD, 1e-9)
	require.False(t, o.Terminal)
	c, err := a.Changes(ctx, core.Run{TaskID: "task-1"})
	require.NoError(t, err)
	require.Equal(t, 1, c.FileCount)
	require.Equal(t, "made.txt", c.FileChanges[0].Path)
	patch, _, err := a.Patch(ctx, *c, "", 0, 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(patch), "+new\n")

	_, _, o = runTask("task-2", "model: say Again")
	require.Equal(t, "Again", o.Summary)
	require.True(t, o.HasConversation)
	require.Empty(t, h.processes("FLEET_TASK_ID=task-2"))

	// The runner passes on the options of a task.
	options = core.TaskOptions{Effort: "low", AppendSystemPrompt: "Be brief.", OutputSchema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
	_, _, o = runTask("task-3", "Count.\n"+`model: tool StructuredOutput {"n":3}`)
	require.JSONEq(t, `{"n":3}`, string(o.Output))
	q := m.requestsWith("Count.")[0]
	require.Contains(t, q.System.text()+q.conversationText(), "Be brief.")

	// The runner passes on files and images.
	options, attachments = core.TaskOptions{}, []core.Attachment{{Name: "notes.txt", MediaType: "text/plain", Content: []byte("buy milk")}, {Name: "dot.png", MediaType: "image/png", Content: picture(t)}}
	_, _, o = runTask("task-5", "Look.\n"+`model: tool Bash {"command":"cat $FLEET_ATTACHMENTS/notes.txt"}`+"\nmodel: say Seen", "allow")
	require.Equal(t, "Seen", o.Summary)
	requests := m.requestsWith("Look.")
	require.True(t, requests[0].hasImage())
	results := requests[1].results()
	require.Contains(t, results[len(results)-1].Content.text(), "buy milk")

	// The runner refuses options that the driver does not have.
	err = a.Dispatch(ctx, core.Run{TaskID: "task-4", Timeout: defaultTimeout, StartedAt: time.Now(), Options: core.TaskOptions{Effort: "huge"}})
	require.Equal(t, core.ReasonInvalidArgument, core.ReasonOf(err))
	require.ErrorContains(t, err, "the driver claude has low")
}
