// Package price has the prices of popular models, as of November 2026. The configuration can replace and extend them.
package price

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"fleet/internal/fleet"
)

// Table has prices by provider/model.
type Table map[string]fleet.Price

// Published are the prices of popular models that their providers published, as of November 2026.
var Published = Table{
	"anthropic/claude-opus-4-5":   {Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25, ContextWindow: 200_000},
	"anthropic/claude-opus-4-1":   {Input: 15, Output: 75, CacheRead: 1.5, CacheWrite: 18.75, ContextWindow: 200_000},
	"anthropic/claude-sonnet-4-5": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75, ContextWindow: 200_000},
	"anthropic/claude-sonnet-4-0": {Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75, ContextWindow: 200_000},
	"anthropic/claude-haiku-4-5":  {Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25, ContextWindow: 200_000},
	"openai/gpt-5":                {Input: 1.25, Output: 10, CacheRead: 0.125, ContextWindow: 400_000},
	"openai/gpt-5-mini":           {Input: 0.25, Output: 2, CacheRead: 0.025, ContextWindow: 400_000},
	"openai/gpt-5-nano":           {Input: 0.05, Output: 0.4, CacheRead: 0.005, ContextWindow: 400_000},
	"openai/gpt-4o":               {Input: 2.5, Output: 10, CacheRead: 1.25, ContextWindow: 128_000},
	"openai/gpt-4o-mini":          {Input: 0.15, Output: 0.6, CacheRead: 0.075, ContextWindow: 128_000},
	"openai/o1":                   {Input: 15, Output: 60, CacheRead: 7.5, ContextWindow: 200_000},
	"openai/o3":                   {Input: 2, Output: 8, CacheRead: 0.5, ContextWindow: 200_000},
	"google/gemini-2.5-pro":       {Input: 1.25, Output: 10, CacheRead: 0.31, ContextWindow: 1_000_000},
	"google/gemini-2.5-flash":     {Input: 0.3, Output: 2.5, CacheRead: 0.075, ContextWindow: 1_000_000},
	"mistral/mistral-small-latest": {
		Input: 0.1, Output: 0.3, ContextWindow: 128_000,
	},
}

// Of returns the price of the model. Its name may be provider/model, or the model alone. A date at the end of the name is
// ignored if the whole name has no price. ok is false if the table lacks the model.
func (t Table) Of(model string) (p fleet.Price, ok bool) {
	if p, ok = t.lookUp(model); ok {
		return p, true
	}
	if i := strings.LastIndex(model, "-20"); i > 0 {
		return t.lookUp(model[:i])
	}
	return fleet.Price{}, false
}

// lookUp returns the price of the model with exactly this name. For a name without a provider, it takes the first provider that has
// the model, in alphabetical order.
func (t Table) lookUp(model string) (fleet.Price, bool) {
	if p, ok := t[model]; ok || model == "" || strings.Contains(model, "/") {
		return p, ok
	}
	for _, id := range slices.Sorted(maps.Keys(t)) {
		if strings.HasSuffix(id, "/"+model) {
			return t[id], true
		}
	}
	return fleet.Price{}, false
}

// List has the prices of a server: its overrides, which can change while the list is used, and the published prices of all
// other models. Its JSON form is the table of the overrides. A nil List has only the published prices.
type List struct{ overrides atomic.Pointer[Table] }

// NewList returns a list with the overrides, by provider/model.
func NewList(overrides map[string]fleet.Price) *List {
	l := &List{}
	l.Set(overrides)
	return l
}

// Set replaces the overrides.
func (l *List) Set(overrides map[string]fleet.Price) {
	t := Table(maps.Clone(overrides))
	l.overrides.Store(&t)
}

// Of is like Table.Of. The overrides come before the published prices.
func (l *List) Of(model string) (p fleet.Price, ok bool) {
	if l != nil {
		if p, ok = l.table().Of(model); ok {
			return p, true
		}
	}
	return Published.Of(model)
}

// table returns the overrides; nil if there are none.
func (l *List) table() Table {
	if t := l.overrides.Load(); t != nil {
		return *t
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (l *List) MarshalJSON() ([]byte, error) { return json.Marshal(l.table()) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *List) UnmarshalJSON(data []byte) error {
	var overrides map[string]fleet.Price
	if err := json.Unmarshal(data, &overrides); err != nil {
		return err
	}
	l.Set(overrides)
	return nil
}
