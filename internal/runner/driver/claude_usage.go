package driver

import (
	"cmp"
	"fmt"

	"fleet/internal/fleet"
)

// claudeUsage computes the usage of a Claude Code run. It adds up the usage in the results. The usage of a message counts only if
// no result follows the message, for example because the run was stopped.
type claudeUsage struct {
	model     string
	toolCount int
	toolNames map[string]string // names of the tools, by the id of the call
	results   tokens            // sum of the results so far
	messages  map[string]tokens // usage of the messages since the last result, by their ids
	measured  map[string]bool   // ids of messages whose usage Fleet's client has measured
}

// tokens are numbers of tokens that a model has read and written.
type tokens struct{ in, out int64 }

func (t *tokens) add(o tokens) { t.in, t.out = t.in+o.in, t.out+o.out }

// messageTokens are token counts in the format of the model's API. Tokens that the model's cache reads or writes also
// count as input.
type messageTokens struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

func (m messageTokens) sum() tokens {
	return tokens{in: m.Input + m.CacheRead + m.CacheWrite, out: m.Output}
}

// claudeTokens are token counts in the format of Claude Code's own sums.
type claudeTokens struct {
	Input      int64 `json:"inputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheCreationInputTokens"`
	Output     int64 `json:"outputTokens"`
}

func (c claudeTokens) sum() tokens {
	return tokens{in: c.Input + c.CacheRead + c.CacheWrite, out: c.Output}
}

// addMessage handles an event of a message. All events of one message report the usage of the same request, so only the last
// event counts. Their usage is not final, so they do not count if Fleet's client has measured the message. addMessage returns a step
// for a new message of a subagent that was not measured.
func (u *claudeUsage) addMessage(e *claudeEvent) []Piece {
	m := e.Message
	if m.Model == "<synthetic>" { // Claude Code itself has written it
		return nil
	}
	if e.Parent == nil && m.Model != "" {
		u.model = m.Model
	}
	if m.Usage == nil || u.measured[m.ID] {
		return nil
	}
	_, known := u.messages[m.ID]
	u.messages[cmp.Or(m.ID, fmt.Sprint(len(u.messages)))] = m.Usage.sum()
	if e.Parent == nil || known {
		return nil
	}
	return []Piece{e.withSubagent(usageStep(m.requestUsage()))}
}

// setMeasured handles the usage that Fleet's client has measured for a message. It returns a step if the message is complete.
func (u *claudeUsage) setMeasured(e *claudeEvent) []Piece {
	m := e.Message
	if m.Usage == nil {
		return nil
	}
	u.measured[m.ID] = true
	u.messages[m.ID] = m.Usage.sum()
	if !e.Final {
		return nil
	}
	return []Piece{e.withSubagent(usageStep(m.requestUsage()))}
}

// addResult handles a result. Its usage includes all messages since the previous result.
func (u *claudeUsage) addResult(e *claudeEvent) {
	var sum tokens
	switch {
	case e.UsageByModel != nil:
		for _, m := range e.UsageByModel {
			sum.add(m.sum())
		}
	case e.Usage != nil:
		sum = e.Usage.sum()
	default:
		return
	}
	u.results.add(sum)
	clear(u.messages)
	clear(u.measured)
}

// total returns the usage of the run so far.
func (u *claudeUsage) total() fleet.Usage {
	sum := u.results
	for _, m := range u.messages {
		sum.add(m)
	}
	return fleet.Usage{Model: u.model, InputTokens: sum.in, OutputTokens: sum.out, ToolCalls: u.toolCount}
}
