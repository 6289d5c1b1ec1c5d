package claude

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary also act as Claude Code.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_CLAUDE") != "" {
		actAsClaude()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actAsClaude acts as Claude Code. The lines of the first message are its script:
//
//	print LINE       prints the line
//	read             waits for a line, and prints it as {"type":"heard","line":LINE}
//	take             waits for a message, and prints that the model has it
//	turn, result     prints the beginning or the end of a turn
//	interrupted      waits for an interrupt, answers it, and prints the end of a turn
//	ignore           ignores SIGINT and SIGTERM from now on
//	hang             ignores the end of the input, too
//	exit CODE        exits
//
// After the script, it reads lines until its input ends.
func actAsClaude() {
	in := bufio.NewReader(os.Stdin)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	next := func() (l struct {
		Type, UUID string
		RequestID  string `json:"request_id"`
		Request    struct {
			Subtype string
			Cancel  bool `json:"cancel_queued"`
		}
		Message struct{ Content []struct{ Text string } }
	}, raw string,
	) {
		raw, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		if err := json.Unmarshal([]byte(raw), &l); err != nil {
			os.Exit(99) // as Claude Code does
		}
		return l, strings.TrimSpace(raw)
	}
	first, _ := next()
	if first.Request.Subtype != "initialize" {
		os.Exit(98)
	}
	say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, first.RequestID)
	prompt, _ := next()
	for line := range strings.SplitSeq(prompt.Message.Content[0].Text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "print":
			say("%s", strings.ReplaceAll(rest, "PROMPT", prompt.UUID))
		case "read":
			_, raw := next()
			b, _ := json.Marshal(raw)
			say(`{"type":"heard","line":%s}`, b)
		case "take":
			m, _ := next()
			say(`{"type":"command_lifecycle","command_uuid":%q,"state":"started"}`, m.UUID)
			say(`{"type":"took","text":%q}`, m.Message.Content[0].Text)
		case "turn":
			say(`{"type":"system","subtype":"init"}`)
			say(`{"type":"command_lifecycle","command_uuid":%q,"state":"started"}`, prompt.UUID)
		case "result":
			say(`{"type":"result","subtype":"success"}`)
		case "interrupted":
			m, _ := next()
			if m.Request.Subtype != "interrupt" || !m.Request.Cancel {
				os.Exit(97)
			}
			say(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{"still_queued":[]}}}`, m.RequestID)
			say(`{"type":"result","subtype":"error_during_execution","is_error":true,"total_cost_usd":0.5}`)
		case "ignore":
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		case "hang":
			<-make(chan struct{})
		case "exit":
			code := 0
			_, _ = fmt.Sscan(rest, &code)
			os.Exit(code)
		}
	}
	for {
		next()
	}
}
