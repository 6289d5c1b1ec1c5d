package acp

// Usage is the number of tokens of a turn, if the program reports it. Input includes the tokens that the model's cache reads or
// writes.
type Usage struct {
	Model      string `json:"model,omitempty"` // empty if the program does not name it
	Input      int64  `json:"input"`
	CacheRead  int64  `json:"cache_read,omitempty"`
	CacheWrite int64  `json:"cache_write,omitempty"`
	Output     int64  `json:"output"`
}

// promptUsage is the part of the answer to a prompt that reports usage. The protocol defines only Usage, and its Input does not
// include the tokens of the cache. Some programs also report the usage by model, in Meta.
type promptUsage struct {
	Usage *struct {
		Input  int64 `json:"inputTokens"`
		Read   int64 `json:"cachedReadTokens"`
		Write  int64 `json:"cachedWriteTokens"`
		Output int64 `json:"outputTokens"`
	} `json:"usage"`
	Meta struct {
		Quota struct {
			Tokens *quotaTokens `json:"token_count"`
			Models []struct {
				Model  string      `json:"model"`
				Tokens quotaTokens `json:"token_count"`
			} `json:"model_usage"`
		} `json:"quota"`
	} `json:"_meta"`
}

// quotaTokens are token counts with the names that Gemini CLI and the adapters claude-agent-acp and codex-acp use. Gemini CLI
// does not count the tokens of the cache.
type quotaTokens struct {
	GeminiInput  int64 `json:"input_tokens"`
	GeminiOutput int64 `json:"output_tokens"`
	Input        int64 `json:"inputTokens"`
	Read         int64 `json:"cachedInputTokens"`
	ClaudeWrite  int64 `json:"cachedWriteTokens"`
	CodexWrite   int64 `json:"cacheWriteInputTokens"`
	Output       int64 `json:"outputTokens"`
}

func (q quotaTokens) usage(model string) Usage {
	write := q.ClaudeWrite + q.CodexWrite
	return Usage{Model: model, Input: q.GeminiInput + q.Input + q.Read + write, CacheRead: q.Read, CacheWrite: write, Output: q.GeminiOutput + q.Output}
}

// total returns the usage of the turn, or nil if the program does not report it.
func (p promptUsage) total() *Usage {
	switch u, q := p.Usage, p.Meta.Quota.Tokens; {
	case u != nil:
		return &Usage{Input: u.Input + u.Read + u.Write, CacheRead: u.Read, CacheWrite: u.Write, Output: u.Output}
	case q != nil:
		return new(q.usage(""))
	}
	return nil
}

// models returns the usage of the turn by model, or nil if the program does not report it.
func (p promptUsage) models() (all []Usage) {
	for _, m := range p.Meta.Quota.Models {
		if u := m.Tokens.usage(m.Model); m.Model != "" && u.Input+u.Output > 0 {
			all = append(all, u)
		}
	}
	return all
}
