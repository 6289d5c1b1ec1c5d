package driver

import "fleet/internal/fleet"

// claudeUsage computes the usage of a Claude Code run. It prefers the results; the messages count only for a run that
// was stopped before its result.
type claudeUsage struct {
	model    string
	calls    int
	names    map[string]string // of the tools, by the id of the call
	results  tokens            // of the results so far
	pending  tokens            // of the messages since the last result
	open     string            // id of the last of these messages, which has several events
	openUsed tokens
}

type tokens struct{ in, out int64 }

func (t *tokens) add(o tokens) { t.in, t.out = t.in+o.in, t.out+o.out }

// messageTokens are token counts in the format of the model's API. Tokens read from or written to a cache are input
// too.
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

// begin sets the configured model of the run.
func (u *claudeUsage) begin(model string) {
	if u.model == "" {
		u.model = model
	}
}

// message handles an event of a message. All events of one message describe the same request.
func (u *claudeUsage) message(e *claudeEvent) {
	m := e.Message
	if e.Parent == nil && m.Model != "" && m.Model != "<synthetic>" {
		u.model = m.Model
	}
	if m.Usage == nil {
		return
	}
	if m.ID == "" || m.ID != u.open {
		u.pending.add(u.openUsed)
		u.open = m.ID
	}
	u.openUsed = m.Usage.sum()
}

// call handles a tool call.
func (u *claudeUsage) call(b claudeBlock) {
	u.calls++
	u.names[b.ID] = b.Name
}

// result handles a result, which includes all messages since the last one.
func (u *claudeUsage) result(e *claudeEvent) {
	var sum tokens
	switch {
	case e.Since != nil:
		for _, m := range e.Since {
			sum.add(m.sum())
		}
	case e.Usage != nil:
		sum = e.Usage.sum()
	default:
		return
	}
	u.results.add(sum)
	u.pending, u.openUsed, u.open = tokens{}, tokens{}, ""
}

func (u *claudeUsage) total() fleet.Usage {
	sum := u.results
	sum.add(u.pending)
	sum.add(u.openUsed)
	return fleet.Usage{Model: u.model, InputTokens: sum.in, OutputTokens: sum.out, ToolCalls: u.calls}
}
