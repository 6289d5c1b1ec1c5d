// Package acptest provides an agent program for tests. The program speaks the Agent Client Protocol and executes
// scripts in its prompts. It does not use the protocol library of the client.
package acptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// message is a message of the protocol.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Peer runs the program until its input ends. mode selects the behaviour of the program: plain; load and resume (the way
// in which it can continue sessions); key (it requires a login) and locked (it also refuses every login); deaf (it cannot be
// cancelled); v2, refuse, silent and garbage (it does not speak this version of the protocol). The program executes the lines
// of each prompt, and skips unknown lines:
//
//	say TEXT             sends a piece of a message
//	think TEXT           sends a piece of a thought
//	tool ID KIND TITLE   reports that a tool call runs
//	done ID TEXT         reports that the tool call has ended, with its result
//	ask ID KIND COMMAND  asks for a permission, and sends the answer as a message
//	nested ID COMMAND    asks for a permission in a session that the client does not know
//	weird                sends updates that no version of the protocol has, and a line that is not JSON
//	read PATH            asks the client for a file, which the client has not offered
//	cost AMOUNT          reports the cost of the session in US dollars
//	stop REASON          ends the turn with the reason
//	fail TEXT            answers the prompt with an error
//	hang                 waits until the turn is cancelled
//	die                  exits at once, with an error
//	pause                waits longer than the client holds texts back
//	until FILE           waits until the working directory has the file
func Peer(mode string) {
	switch mode {
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "garbage":
		fmt.Println("unknown command \"acp\"")
		return
	case "deaf": // the program ignores cancellation and the end of its input
		defer func() { select {} }()
	}
	p := &program{mode: mode, in: make(chan message)}
	go func() {
		defer close(p.in)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var m message
			if json.Unmarshal(in.Bytes(), &m) == nil {
				p.in <- m
			}
		}
	}()
	for m := range p.in {
		p.serve(m)
	}
}

type program struct {
	mode       string
	in         chan message // the messages of the client
	authorized bool         // the client has logged in
	requests   int          // number of requests to the client so far
}

// send writes the messages together, so that the client reads them without a pause between them.
func (p *program) send(all ...map[string]any) {
	var lines []byte
	for _, m := range all {
		m["jsonrpc"] = "2.0"
		b, _ := json.Marshal(m)
		lines = append(append(lines, b...), '\n')
	}
	_, _ = os.Stdout.Write(lines)
}

func (p *program) answer(m message, result any) { p.send(response(m, result)) }

func response(m message, result any) map[string]any {
	return map[string]any{"id": m.ID, "result": result}
}

func (p *program) refuse(m message, code int, text string) {
	p.send(map[string]any{"id": m.ID, "error": map[string]any{"code": code, "message": text}})
}

func (p *program) update(u map[string]any) { p.send(notification(u)) }

func notification(u map[string]any) map[string]any {
	return map[string]any{"method": "session/update", "params": map[string]any{"sessionId": "s1", "update": u}}
}

func text(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func (p *program) serve(m message) {
	options := []any{map[string]any{"id": "model", "category": "model", "options": []any{
		map[string]any{"value": "small"}, map[string]any{"name": "more", "options": []any{map[string]any{"value": "large"}}},
	}}}
	switch m.Method {
	case "initialize":
		version := 1
		if p.mode == "v2" {
			version = 2
		}
		session := map[string]any{}
		if p.mode == "resume" {
			session["resume"] = map[string]any{}
		}
		if p.mode == "refuse" {
			p.refuse(m, -32601, "no such method")
			return
		}
		p.answer(m, map[string]any{
			"protocolVersion": version, "agentInfo": map[string]any{"name": "peer", "version": "7.0", "shape": []int{1}},
			"agentCapabilities": map[string]any{"loadSession": p.mode == "load", "sessionCapabilities": session},
			"authMethods":       []any{map[string]any{"id": "web", "name": "A browser"}, map[string]any{"id": "key", "name": "A key", "_meta": map[string]any{"api-key": map[string]any{}}}},
		})
	case "authenticate":
		if p.mode == "locked" {
			p.refuse(m, -32603, "no key")
			return
		}
		p.authorized = true
		p.answer(m, map[string]any{})
	case "session/new":
		if (p.mode == "key" || p.mode == "locked") && !p.authorized {
			p.refuse(m, -32000, "Authentication required")
			return
		}
		p.answer(m, map[string]any{"sessionId": "s1", "configOptions": options})
	case "session/load", "session/resume":
		if strings.Contains(string(m.Params), "lost") {
			p.refuse(m, -32002, "no such session")
			return
		}
		answer := response(m, map[string]any{"configOptions": options})
		if m.Method == "session/resume" {
			p.send(answer)
			return
		}
		historyUpdate := func(words string) map[string]any {
			return notification(map[string]any{"sessionUpdate": "agent_message_chunk", "content": text(words)})
		}
		p.send(historyUpdate("of the past"), answer, historyUpdate("more of the past")) // a part comes after the answer, as with Gemini CLI
	case "session/set_config_option":
		p.say("set " + string(m.Params))
		p.answer(m, map[string]any{})
	case "session/prompt":
		var q struct {
			Prompt []struct {
				Text string `json:"text"`
			} `json:"prompt"`
		}
		_ = json.Unmarshal(m.Params, &q)
		reason := p.play(m, q.Prompt[0].Text)
		if reason != "" {
			p.answer(m, map[string]any{"stopReason": reason, "usage": map[string]any{"inputTokens": 10, "cachedReadTokens": 5, "outputTokens": 2}})
		}
	}
}

func (p *program) say(s string) {
	p.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": text(s)})
}

// play executes the lines of script, the text of the prompt m, and returns the stop reason. It returns an empty reason if it
// has already answered the prompt.
func (p *program) play(m message, script string) string {
	for line := range strings.Lines(script) {
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		id, after, _ := strings.Cut(rest, " ")
		switch verb {
		case "say":
			p.say(rest)
		case "think":
			p.update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": text(rest)})
		case "tool":
			kind, title, _ := strings.Cut(after, " ")
			p.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "kind": kind, "title": title, "status": "in_progress"})
		case "done":
			p.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": []any{map[string]any{"type": "content", "content": text(after)}}})
		case "ask":
			kind, command, _ := strings.Cut(after, " ")
			p.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": id, "kind": kind, "title": "terminal", "status": "pending", "rawInput": map[string]any{"command": command}})
			p.askPermission("s1", map[string]any{"toolCallId": id})
		case "nested":
			p.askPermission("s9", map[string]any{"toolCallId": id, "kind": "execute", "title": after, "rawInput": map[string]any{"command": after}})
		case "weird":
			p.update(map[string]any{"sessionUpdate": "hologram", "depth": 3})
			p.update(map[string]any{"sessionUpdate": 7})
			p.send(map[string]any{"method": "session/update", "params": "nothing"})
			p.send(map[string]any{"method": "session/teleport"})
			fmt.Println("this is no JSON")
		case "read":
			p.requests++
			p.send(map[string]any{"id": fmt.Sprint("r", p.requests), "method": "fs/read_text_file", "params": map[string]any{"sessionId": "s1", "path": rest}})
			p.say("read: " + string((<-p.in).Result))
		case "cost":
			p.update(map[string]any{"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": map[string]any{"amount": json.Number(rest), "currency": "USD"}})
		case "stop":
			return rest
		case "fail":
			p.refuse(m, -32603, rest)
			return ""
		case "hang":
			for n := range p.in {
				if n.Method == "session/cancel" && p.mode != "deaf" {
					return "cancelled"
				}
			}
		case "die":
			fmt.Fprintln(os.Stderr, "peer: out of memory")
			os.Exit(3)
		case "until":
			for _, err := os.Stat(rest); err != nil; _, err = os.Stat(rest) {
				time.Sleep(5 * time.Millisecond)
			}
		case "pause":
			time.Sleep(600 * time.Millisecond)
		}
	}
	return "end_turn"
}

// askPermission asks the client for a permission, and sends the answer as a message of the agent.
func (p *program) askPermission(session string, call map[string]any) {
	p.requests++
	p.send(map[string]any{"id": p.requests, "method": "session/request_permission", "params": map[string]any{
		"sessionId": session, "toolCall": call, "options": []any{
			map[string]any{"optionId": "always", "kind": "allow_always", "name": "Always"},
			map[string]any{"optionId": "yes", "kind": "allow_once", "name": "Yes"},
			map[string]any{"optionId": "no", "kind": "reject_once", "name": "No"},
		},
	}})
	m := <-p.in
	var r struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	_ = json.Unmarshal(m.Result, &r)
	p.say(r.Outcome.Outcome + " " + r.Outcome.OptionID + "\n")
}
