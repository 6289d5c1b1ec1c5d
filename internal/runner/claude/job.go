package claude

import (
	"crypto/sha256"
	"fmt"
	"os"
)

// Job is the input of Main.
type Job struct {
	Argv                 []string `json:"argv"`               // Claude Code and its arguments
	ID                   string   `json:"id"`                 // identifies the run
	System               string   `json:"system,omitempty"`   // instructions that extend the system prompt
	ReplacesSystemPrompt bool     `json:"alone,omitempty"`    // System replaces the system prompt
	Prompt               string   `json:"prompt"`             // the first message
	Images               []Image  `json:"images,omitempty"`   // images of the first message
	RunDir               string   `json:"ask,omitempty"`      // the run's directory, for questions; if empty, Claude Code asks nobody
	ReportsRequests      bool     `json:"requests,omitempty"` // pass on the events of the model's API, which show when a request is active
	Trust                *bool    `json:"trust,omitempty"`    // whether Claude Code trusts the current directory; nil: as it was
	Terminal             bool     `json:"terminal,omitempty"` // a person uses Claude Code on the terminal, so Main only starts it
	MessagesFD           int      `json:"messages,omitempty"` // the file descriptor of the mailbox; 0 for no messages
}

// Image is a file with an image.
type Image struct {
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
}

// block returns the image as a part of a message.
func (i Image) block() (any, error) {
	data, err := os.ReadFile(i.Path)
	return map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": i.MediaType, "data": data}}, err
}

// AskServer is the name of the MCP server that has the tool ask_user. Main serves it over Claude Code's input and output.
const AskServer = "fleet-ask"

// uuidOf derives a UUID from the id of a message, because Claude Code accepts only UUIDs.
func uuidOf(id string) string {
	h := sha256.Sum256([]byte(id))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8: derived by a rule of the application
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
