package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Job is what Main is told to do. It holds the headers of MCP servers, so it lives in a file that goes with the run.
type Job struct {
	Argv    []string `json:"argv"`              // the program and its arguments
	Tested  string   `json:"tested,omitempty"`  // the version of the program that this was tested with
	Session string   `json:"session,omitempty"` // the session to continue; empty: a new one
	// NotBefore is when the session can be continued at the earliest; zero: at once.
	NotBefore time.Time `json:"not_before,omitzero"`
	First     string    `json:"first"`           // the prompt that begins a session: all that the agent is told
	Prompt    string    `json:"prompt"`          // the prompt that continues one
	Model     string    `json:"model,omitempty"` // empty: the program's own choice
	Mode      string    `json:"mode,omitempty"`  // of permissions, as the program calls it; empty: its own choice
	Servers   []Server  `json:"servers,omitempty"`
	Policy    Policy    `json:"policy"`
	Ask       string    `json:"ask,omitempty"`      // the run's directory, where what Policy does not decide is asked; empty: it is denied
	Messages  int       `json:"messages,omitempty"` // the file descriptor that messages come from; 0: none
}

// Server is an MCP server that the program connects to.
type Server struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"` // stdio, http or sse
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

func readJob(path string) (*Job, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var j Job
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(j.Argv) == 0 {
		return nil, fmt.Errorf("%s names no program", path)
	}
	return &j, nil
}
