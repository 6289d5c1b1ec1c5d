package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/place/local"
)

// transcript is the output of a program that speaks like Claude Code. At each line "wait", the program waits until the file go exists,
// and removes it.
type transcript []string

func (tr *transcript) add(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	*tr = append(*tr, string(b))
}

type object = map[string]any

// message adds a message of the model, by a subagent if parent is not empty.
func (tr *transcript) message(parent string, content ...object) {
	tr.add(object{"type": "assistant", "parent_tool_use_id": parent, "message": object{
		"id": fmt.Sprint("m", len(*tr)), "model": "opus", "role": "assistant", "content": content,
		"usage": object{"input_tokens": 1200, "output_tokens": 34},
	}})
}

func (tr *transcript) text(text string) { tr.message("", object{"type": "text", "text": text}) }

func (tr *transcript) toolCall(parent, id, name string, input any) {
	tr.message(parent, object{"type": "tool_use", "id": id, "name": name, "input": input})
}

// toolResult adds the result of a tool, and before it Fleet's event that the call took 1.5 seconds. details are what Claude Code
// also reports, for example the patch of an edit; it may be nil.
func (tr *transcript) toolResult(parent, id, result string, details any) {
	tr.addToolResult(parent, object{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": false}, details)
}

// toolError adds the error of a tool as toolResult adds a result.
func (tr *transcript) toolError(parent, id, message string) {
	tr.addToolResult(parent, object{"type": "tool_result", "tool_use_id": id, "content": message, "is_error": true}, nil)
}

func (tr *transcript) addToolResult(parent string, result object, details any) {
	tr.add(object{"type": "fleet", "subtype": "tool_time", "tool_use_id": result["tool_use_id"], "ms": 1500})
	tr.add(object{"type": "user", "parent_tool_use_id": parent, "tool_use_result": details, "message": object{"role": "user", "content": []object{result}}})
}

func (tr *transcript) wait() { *tr = append(*tr, "wait") }

// program writes the program into a directory. It returns the directory and the command line of the program.
func (tr *transcript) program(t *testing.T) (dir string, argv []string) {
	t.Helper()
	dir = t.TempDir()
	lines := append([]string{`{"type":"system","subtype":"init","session_id":"s1","model":"opus"}`}, *tr...)
	lines = append(lines, `{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s1","total_cost_usd":0.25,"num_turns":3}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "transcript.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	script := `while IFS= read -r l; do case "$l" in wait) while ! [ -e go ]; do sleep 0.05; done; rm go;; *) printf '%s\n' "$l";; esac; done < ` + dir + "/transcript.jsonl\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "transcript.sh"), []byte(script), 0o600))
	return dir, []string{"sh", filepath.Join(dir, "transcript.sh")}
}

// serveTranscript starts a server whose project "transcript" runs the program, with an agent "claude" of this project.
func serveTranscript(t *testing.T, tr *transcript) *server {
	t.Helper()
	dir, argv := tr.program(t)
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = append(cfg.Local.Projects, local.Project{Name: "transcript", Driver: "claude", Command: argv, Read: []string{dir}})
	})
	s.createAgentWith(t, "claude", "transcript", "", "Try things")
	return s
}

// TestTranscript follows a conversation: Markdown, tool calls with their results, an edit, a list of things to do, a
// subagent, and a thought.
func TestTranscript(t *testing.T) {
	t.Parallel()
	var tr transcript
	tr.message("", object{"type": "thinking", "thinking": "Where should I begin?", "signature": "x"})
	tr.text("I will **fix** it:\n\n- first the [test](https://example.com/test)\n- then <img src=x onerror=alert(1)> [bad](javascript:alert(1))\n\n```go\nfmt.Println(\"code\")\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
	tr.toolCall("", "c1", "Bash", object{"command": "go test ./...", "description": "Run the tests"})
	tr.toolError("", "c1", "--- FAIL: TestLogin\nexit status 1")
	tr.toolCall("", "c2", "Edit", object{"file_path": "login.go", "old_string": "one", "new_string": "two"})
	tr.toolResult("", "c2", "updated", object{"filePath": "login.go", "structuredPatch": []object{
		{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": []string{" package login", "-var limit = one + rest", "+var limit = two + rest"}},
	}})
	tr.toolCall("", "c3", "TodoWrite", object{"todos": []object{{"content": "Fix the login", "status": "completed"}, {"content": "Tell the team", "status": "in_progress"}}})
	tr.toolResult("", "c3", "ok", nil)
	tr.toolCall("", "c4", "Task", object{"description": "Look around", "prompt": "Look", "subagent_type": "explorer"})
	tr.toolCall("c4", "c5", "Grep", object{"pattern": "limit"})
	tr.toolResult("c4", "c5", "login.go:2", nil)
	tr.toolResult("", "c4", "Seen.", nil)
	tr.wait()
	tr.text("All is well.")
	s := serveTranscript(t, &tr)
	id := s.startTask(t, "claude", "Fix the login")
	b := openAt(t, s.home, "/tasks/"+id)
	b.waitForText("Look around")
	b.waitForText("running")
	text := b.text()
	for _, want := range []string{"Where should I begin?", "go test ./...", "failed", "login.go", "1 step", "Tell the team", "<img src=x onerror=alert(1)>", "[bad](javascript:alert(1))"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "TestLogin", "results are folded")
	require.Equal(t, []string{"fix"}, eval[[]string](b, `[...document.querySelectorAll('.markdown strong')].map(e => e.textContent)`))
	require.Equal(t, "https://example.com/test", eval[string](b, `document.querySelector('.markdown a').href`))
	require.Equal(t, `fmt.Println("code")`, eval[string](b, `document.querySelector('.markdown pre').textContent`))
	require.Equal(t, "1", eval[string](b, `document.querySelector('.markdown td').textContent`))
	unfold := func(name string) {
		t.Helper()
		eval[bool](b, `[...document.querySelectorAll('button[aria-expanded]')].find(e => e.textContent.includes(`+"`"+name+"`"+`)).click(), true`)
	}
	unfold("go test")
	b.waitForText("FAIL: TestLogin")
	unfold("Edit")
	b.waitForText("package login")
	require.Equal(t, "one,two", eval[string](b, `[...document.querySelectorAll('.changed')].map(e => e.textContent).join()`))
	require.NotContains(t, b.text(), "Grep")
	unfold("Look around")
	b.waitForText("Grep")
	b.waitForText("Seen.")
	b.savePictures("transcript", 400, 1280, 2560)
	s.createFile(t, "claude", "go")
	b.waitForText("All is well.")
	b.waitForText("completed")
	b.waitForText("$0.25")
	b.waitForText("opus")
}

// TestLongTranscript opens a conversation at its end, scrolls to its beginning, and jumps back.
func TestLongTranscript(t *testing.T) {
	t.Parallel()
	var tr transcript
	tr.text("the beginning")
	for i := range 500 {
		id := fmt.Sprint("c", i)
		tr.toolCall("", id, "Bash", object{"command": fmt.Sprintf("echo call %d", i)})
		tr.toolResult("", id, strings.Repeat(fmt.Sprintf("line of result %d\n", i), 300), nil)
	}
	tr.wait()
	tr.text("the end")
	s := serveTranscript(t, &tr)
	id := s.startTask(t, "claude", "Count")
	b := openAt(t, s.home, "/tasks/"+id)
	b.waitForText("echo call 499")
	require.NotContains(t, b.text(), "echo call 100")
	require.NoError(t, b.waitUntil(`() => { document.querySelector('[aria-label="Conversation"]').scrollTo(0, 0); return document.body.innerText.includes('the beginning') }`))
	b.waitForText("echo call 0")
	eval[bool](b, `[...document.querySelectorAll('button[aria-expanded]')].find(e => e.textContent.includes('echo call 0')).click(), true`)
	b.waitForText("line of result 0") // the long result is read when it is needed
	s.createFile(t, "claude", "go")
	b.press("Jump to now")
	b.waitForText("the end")
	b.waitUntilGone("Jump to now")
	eval[bool](b, `document.querySelector('[aria-label="Conversation"]').focus(), true`)
	b.pressKeys(kb.Home)
	b.waitForText("Jump to the end")
}
