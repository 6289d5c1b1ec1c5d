//go:build cgo

package run

import "fleet/internal/fleet"

// messagesUsage is the usage in an event of the Messages API. A field is nil if the event does not have it.
type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Output  *int64 `json:"output_tokens"`
	Cached  *int64 `json:"cache_read_input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
	// Iterations has the usage of each request to a model, if the provider needed several for one answer, for example because of
	// a compaction. The figures above then do not include all of them.
	Iterations []messagesUsage `json:"iterations"`
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

// geminiUsage is the usage in an event of the Gemini API. Prompt includes the cached tokens. Candidates, the tokens of the
// answer, does not include the thoughts.
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

// tokens are the token counts of one request. input counts neither the tokens that were read from the provider's cache, which
// cached counts, nor those that were written to it, which written counts.
type tokens struct{ input, output, cached, written int64 }

// inputTotal returns the number of all input tokens.
func (t tokens) inputTotal() int64 { return t.input + t.cached + t.written }

// toFleet returns the token counts in the form of package fleet.
func (t tokens) toFleet() fleet.RequestUsage {
	return fleet.RequestUsage{Input: t.input, CacheRead: t.cached, CacheWrite: t.written, Output: t.output}
}

// requestUsage is the usage and the cost of one answered request.
type requestUsage struct {
	model string // without the provider
	tokens
	usd       float64
	truncated bool // the answer ended at the limit of tokens
}
