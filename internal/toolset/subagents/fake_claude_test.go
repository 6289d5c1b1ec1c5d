package subagents_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// recordedCall records how claude was called.
type recordedCall struct {
	Argv    []string
	Env     []string
	Prompt  string
	System  string          // the instructions for its system prompt
	MCP     json.RawMessage // content of its --mcp-config
	MCPMode os.FileMode
	PID     int
}

// flag returns the argument after the flag, or "-" if claude was called without the flag.
func (c recordedCall) flag(name string) string {
	if i := slices.Index(c.Argv, name); i >= 0 {
		return c.Argv[i+1]
	}
	return "-"
}

// readRequest reads the first request and the first message from the standard input, and returns the instructions for the system
// prompt and the prompt. A later interrupt ends the process.
func readRequest() (system, prompt string) {
	in := bufio.NewReader(os.Stdin)
	var first struct {
		Request struct{ SystemPrompt, AppendSystemPrompt string }
	}
	var message struct {
		Message struct{ Content []struct{ Text string } }
	}
	for _, v := range []any{&first, &message} {
		line, _ := in.ReadBytes('\n')
		if json.Unmarshal(line, v) != nil {
			os.Exit(99)
		}
	}
	go func() {
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if strings.Contains(line, `"interrupt"`) {
				os.Exit(143)
			}
		}
	}()
	return first.Request.SystemPrompt + first.Request.AppendSystemPrompt, message.Message.Content[0].Text
}

// actAsClaude acts as the claude program. It records how it was called and then follows its prompt line by line: "say TEXT"
// sets the result, "break" makes an MCP server fail, "big N" sets a result of N bytes, "fail TEXT" makes the run fail,
// "tell TEXT" says something before the result, "hang" waits for an hour, and "wait" waits for the file $HOME/open. If the
// prompt says that the previous answer cannot be used, claude answers with the next line of $HOME/better.
func actAsClaude(argv []string) {
	c := recordedCall{Argv: argv, Env: os.Environ(), PID: os.Getpid()}
	c.System, c.Prompt = readRequest()
	if path := c.flag("--mcp-config"); path != "-" {
		c.MCP, _ = os.ReadFile(path)
		info, _ := os.Stat(path)
		c.MCPMode = info.Mode()
	}
	home := os.Getenv("HOME")
	b, _ := json.Marshal(c)
	path := filepath.Join(home, "calls", fmt.Sprintf("%d-%d", time.Now().UnixNano(), os.Getpid()))
	_ = os.WriteFile(path+".new", b, 0o600)
	_ = os.Rename(path+".new", path)

	session := c.flag("--resume")
	if session == "-" {
		session = "s-" + strconv.Itoa(os.Getpid())
	}
	printEvent := func(v map[string]any) {
		v["session_id"] = session
		b, _ := json.Marshal(v)
		fmt.Println(string(b))
	}
	servers := []map[string]string{{"name": "tickets", "status": "connected"}}
	if strings.Contains(c.Prompt, "break ") {
		servers[0]["status"] = "failed"
	}
	printEvent(map[string]any{"type": "system", "subtype": "init", "model": "opus", "mcp_servers": servers})
	printEvent(map[string]any{"type": "assistant", "message": map[string]any{"content": []any{}}}) // shows that the prompt has arrived
	text, code := "nothing to say", 0
	lines := strings.Split(c.Prompt, "\n")
	if strings.Contains(c.Prompt, "Your answer cannot be used") {
		better, _ := os.ReadFile(filepath.Join(home, "better"))
		first, rest, _ := strings.Cut(string(better), "\n")
		_ = os.WriteFile(filepath.Join(home, "better"), []byte(rest), 0o600)
		lines = []string{"say " + first}
	}
	for _, line := range lines {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "say":
			text = rest
		case "big":
			n, _ := strconv.Atoi(rest)
			text = strings.Repeat("word ", n/5)
		case "fail":
			text, code = rest, 1
		case "tell":
			printEvent(map[string]any{"type": "assistant", "message": map[string]any{"content": []any{map[string]any{"type": "text", "text": rest}}}})
		case "hang":
			time.Sleep(time.Hour)
		case "wait":
			for {
				if _, err := os.Stat(filepath.Join(home, "open")); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	printEvent(map[string]any{
		"type": "result", "subtype": "success", "is_error": code != 0, "result": text, "num_turns": 1, "total_cost_usd": 0.25,
		"usage": map[string]any{"input_tokens": 100, "output_tokens": 10},
	})
	os.Exit(code)
}
