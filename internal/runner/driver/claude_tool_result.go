package driver

import (
	"encoding/json"
	"fmt"
	"strings"
)

// handleUser handles the tool results in an event.
func (p *claudeParser) handleUser(e claudeEvent) []Piece {
	var blocks []claudeBlock
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		return nil
	}
	var pieces []Piece
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		id, name := b.ToolUseID, p.usage.toolNames[b.ToolUseID]
		result := contentText(b.Content)
		delete(p.openCalls, id)
		for _, m := range e.ToolMeta {
			if m.ID == id && m.Kind != "" {
				pieces = append(pieces, p.denialSteps(id, name, result)...)
			}
		}
		pieces = append(pieces, e.withSubagent(toolResultStep(id, toolName(name), result, b.IsError, p.durations[id])))
		delete(p.durations, id)
		if path, patch := filePatch(e.ToolResult); path != "" && !b.IsError {
			pieces = append(pieces, e.withSubagent(fileEditStep(id, path, patch)))
		}
	}
	return pieces
}

// filePatch returns the path of the file that a tool call has changed, and the change in the unified format. path is empty if the
// call has changed no file.
func filePatch(result json.RawMessage) (path, patch string) {
	var r struct {
		Path    string  `json:"filePath"`
		Type    string  `json:"type"`
		Content *string `json:"content"`
		Patch   []struct {
			OldStart int      `json:"oldStart"`
			OldLines int      `json:"oldLines"`
			NewStart int      `json:"newStart"`
			NewLines int      `json:"newLines"`
			Lines    []string `json:"lines"`
		} `json:"structuredPatch"`
	}
	if json.Unmarshal(result, &r) != nil || r.Patch == nil {
		return "", ""
	}
	var b strings.Builder
	for _, h := range r.Patch {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines, strings.Join(h.Lines, "\n"))
	}
	if r.Type == "create" && r.Content != nil && *r.Content != "" { // a new file has no structured patch
		lines := strings.Split(strings.TrimSuffix(*r.Content, "\n"), "\n")
		fmt.Fprintf(&b, "@@ -0,0 +1,%d @@\n+%s\n", len(lines), strings.Join(lines, "\n+"))
	}
	return r.Path, b.String()
}

// contentText returns the text of a message's content, which is a string or a list of blocks. A block that is not text is shown as
// its type in brackets.
func contentText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []claudeBlock
	_ = json.Unmarshal(content, &blocks)
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else if b.Type != "" {
			texts = append(texts, "["+b.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}
