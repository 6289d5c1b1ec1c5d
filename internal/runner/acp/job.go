package acp

import (
	"time"
)

// Job is the input of Main. It contains headers of MCP servers, which may be secrets, so its file is removed at the end
// of the run.
type Job struct {
	Argv          []string `json:"argv"`              // the program and its arguments
	TestedVersion string   `json:"tested,omitempty"`  // the version of the program with which Fleet was tested
	Session       string   `json:"session,omitempty"` // the session to continue; empty to start a new session
	// NotBefore is the earliest time at which the session can be continued. The zero time means that there is no need to wait.
	NotBefore   time.Time `json:"not_before,omitzero"`
	FirstPrompt string    `json:"first"`           // the prompt for a new session, with all instructions
	Prompt      string    `json:"prompt"`          // the prompt for an existing session
	Model       string    `json:"model,omitempty"` // empty means the program's default
	Mode        string    `json:"mode,omitempty"`  // permission mode, as the program names it; empty means the default
	Servers     []Server  `json:"servers,omitempty"`
	Policy      Policy    `json:"policy"`
	// RunDir is the run's directory. Through its files, people are asked about calls that Policy does not decide. If RunDir is
	// empty, such calls are denied.
	RunDir     string `json:"ask,omitempty"`
	MessagesFD int    `json:"messages,omitempty"` // the file descriptor of the mailbox; 0 for no messages
}

// Server is an MCP server to which the program connects.
type Server struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"` // stdio, http or sse
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}
