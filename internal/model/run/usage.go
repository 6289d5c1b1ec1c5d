//go:build cgo

package run

// messagesUsage is the usage in an event of the Messages API. A field is nil if the event does not have it.
type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Cached  *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
	// Steps are the parts of an answer with several requests to models, for example a compaction. If there are any, the
	// figures above do not have all of them.
	Steps []messagesUsage `json:"iterations"`
}

// chatUsage is the usage in an event of chat completions.
type chatUsage struct {
	Prompt  int64 `json:"prompt_tokens"`
	Output  int64 `json:"completion_tokens"`
	Total   int64 `json:"total_tokens"`
	Details struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	// Some providers have the cached tokens here instead.
	CacheHit int64 `json:"prompt_cache_hit_tokens"`
	Cached   int64 `json:"cached_tokens"`
}

func (u chatUsage) tokens() tokens {
	cached := min(u.Prompt, max(u.Details.Cached, u.CacheHit, u.Cached))
	written := min(u.Prompt-cached, u.Details.Written)
	// Some providers do not count thoughts in completion_tokens, but all count them in total_tokens.
	return tokens{input: u.Prompt - cached - written, output: max(u.Output, u.Total-u.Prompt), cached: cached, written: written}
}

// responsesUsage is the usage in an event of the Responses API.
type responsesUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Total   int64 `json:"total_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u responsesUsage) tokens() tokens {
	cached := min(u.Input, u.Details.Cached)
	return tokens{input: u.Input - cached, output: max(u.Output, u.Total-u.Input), cached: cached}
}

// geminiUsage is the usage in an event of the Gemini API. The prompt includes cached tokens. The candidates do not include
// thoughts.
type geminiUsage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Tools      int64 `json:"toolUsePromptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
}

func (u geminiUsage) tokens() tokens {
	cached := min(u.Prompt, u.Cached)
	return tokens{input: u.Prompt + u.Tools - cached, output: u.Candidates + u.Thoughts, cached: cached}
}

// mergeUsage updates the usage of the exchange. The figures in an event are totals since the beginning of the answer, so
// mergeUsage keeps the largest.
func (x *exchange) mergeUsage(u messagesUsage) {
	if len(u.Steps) > 0 {
		var sum tokens
		for _, step := range u.Steps {
			for _, f := range []struct{ to, said *int64 }{
				{&sum.input, step.Input}, {&sum.output, step.Output}, {&sum.cached, step.Cached}, {&sum.written, step.Written},
			} {
				if f.said != nil {
					*f.to += max(0, *f.said)
				}
			}
		}
		x.replaceUsage(sum)
		return
	}
	x.updateUsage(func(t *tokens) {
		for _, f := range []struct{ to, said *int64 }{
			{&t.input, u.Input}, {&t.output, u.Output}, {&t.cached, u.Cached}, {&t.written, u.Written},
		} {
			if f.said != nil {
				*f.to = max(*f.to, *f.said)
			}
		}
	})
}

// replaceUsage sets the usage of the exchange to the totals in an event, unless an earlier event has reported more output.
// The last event is the most precise: some servers count the prompt again for it.
func (x *exchange) replaceUsage(u tokens) {
	u = tokens{max(0, u.input), max(0, u.output), max(0, u.cached), max(0, u.written)}
	x.updateUsage(func(t *tokens) {
		if u.inputTotal()+u.output > 0 && u.output >= t.output {
			*t = u
		}
	})
}

// updateUsage calls change with the usage of the exchange.
func (x *exchange) updateUsage(change func(*tokens)) {
	defer func() {
		if x.onUsage != nil {
			x.onUsage()
		}
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.usage == nil {
		x.usage = &tokens{}
	}
	change(x.usage)
}
