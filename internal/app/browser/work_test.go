package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
)

// TestWork does the main job on the page: it creates an agent, starts a task, follows the task, sends it a message,
// stops it, and deletes the agent.
func TestWork(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.press("Create the first agent")
	b.waitForText("What the agent is for")
	b.waitForText("coder")
	b.fill("Name", "papi")
	b.fill("What the agent is for", "Try things")
	b.press("Create agent")
	b.waitForText("No task yet.")
	b.waitForText("idle")

	b.fill("Next task", `echo one; read line < <(tail -f "$FLEET_MESSAGES"); echo "two $line"; sleep 600`)
	b.press("Start task")
	b.waitForText("one")
	b.waitForText("Message to the running task")
	b.fill("Message to the running task", "hello")
	b.press("Send")
	b.waitForText("two")
	b.press("Stop task")
	b.press("Yes")
	b.waitForText("stopped")
	b.waitForText("Next task")

	b.allowErrors("404") // the page may be reading the task when it is deleted with its agent
	b.press("Delete")
	b.press("Yes")
	b.waitForText("No agents yet")
}

// TestPalette opens an agent with the keyboard only.
func TestPalette(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	b := openAt(t, s.home, "/")
	b.waitForText("1 agent")
	b.pressKeys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitForText("Find or do")
	b.pressKeys("papi")
	b.pressKeys(kb.Enter)
	b.waitForText("What it is for")
	require.Equal(t, "/agents/papi", eval[string](b, `location.pathname`))
}

// TestQuestion answers a request for permission and a question on the page.
func TestQuestion(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	b := openAt(t, s.home, "/attention")
	b.waitForText("No agent waits for an answer.")
	id := s.startTask(t, "papi", `"$FLEET_ASK" permission Bash '{"command":"make"}'; "$FLEET_ASK" question "tabs or spaces?" tabs spaces`)
	b.waitForText("asks for permission")
	b.waitForText("$ make")
	b.press("Allow once")
	b.waitForText("tabs or spaces?")
	b.press("spaces")
	b.waitForText("No agent waits for an answer.")
	s.waitForEnd(t, id)
	b.goTo("/tasks/" + id)
	b.waitForText("spaces")
	b.waitForText("completed")
}

// TestLongOutput follows output that is longer than the part in the event log.
func TestLongOutput(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *app.Config) { c.MaxOutput = 100 })
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `seq 1 100; echo early-$((40 + 2)); until [ -e more ]; do sleep 0.1; done; echo late-$((40 + 2)); until [ -e done ]; do sleep 0.1; done`)
	b := openAt(t, s.home, "/tasks/"+id+"?view=output")
	b.waitForText("early-42")
	s.createFile(t, "papi", "more")
	b.waitForText("late-42")
	s.createFile(t, "papi", "done")
	b.waitForText("completed")
}

// TestAttachments starts a task with a file, and starts it again. The agent reads the file both times.
func TestAttachments(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("buy milk\n"), 0o600))
	b := openAt(t, s.home, "/")
	b.waitForText("1 agent")
	b.press("New task")
	b.fill("For", "agent")
	b.fill("Agent", "papi")
	b.fill("What is to be done", `cat "$FLEET_ATTACHMENTS/notes.txt"`)
	b.run(chromedp.SetUploadFiles(chromedp.CSS(`dialog input[type=file]`), []string{file}))
	b.waitForText("9 bytes")
	b.press("Start task")
	b.waitForText("notes.txt, text/plain")
	b.waitForText("buy milk")
	b.waitForText("completed")
	b.press("Retry")
	b.waitForText("Retry of an earlier task")
	b.waitForText("notes.txt, text/plain")
	b.waitForText("completed")
}
