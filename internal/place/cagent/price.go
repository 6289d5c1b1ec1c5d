//go:build cgo

package cagent

import (
	"strings"
	"sync"

	"github.com/docker/cagent/pkg/modelsdev"
)

// prices are the prices of popular models in November 2026. Other models count as free.
var prices = map[string]Price{
	"anthropic/claude-opus-4-5":   {5, 25, 0.5, 6.25, 200_000},
	"anthropic/claude-opus-4-1":   {15, 75, 1.5, 18.75, 200_000},
	"anthropic/claude-sonnet-4-5": {3, 15, 0.3, 3.75, 200_000},
	"anthropic/claude-sonnet-4-0": {3, 15, 0.3, 3.75, 200_000},
	"anthropic/claude-haiku-4-5":  {1, 5, 0.1, 1.25, 200_000},
	"openai/gpt-5":                {1.25, 10, 0.125, 0, 400_000},
	"openai/gpt-5-mini":           {0.25, 2, 0.025, 0, 400_000},
	"openai/gpt-5-nano":           {0.05, 0.4, 0.005, 0, 400_000},
	"openai/gpt-4o":               {2.5, 10, 1.25, 0, 128_000},
	"openai/gpt-4o-mini":          {0.15, 0.6, 0.075, 0, 128_000},
	"openai/o1":                   {15, 60, 7.5, 0, 200_000},
	"openai/o3":                   {2, 8, 0.5, 0, 200_000},
	"google/gemini-2.5-pro":       {1.25, 10, 0.31, 0, 1_000_000},
	"google/gemini-2.5-flash":     {0.3, 2.5, 0.075, 0, 1_000_000},
	"mistral/mistral-small-latest": {
		0.1, 0.3, 0, 0, 128_000,
	},
}

// priceOf returns the price of the model provider/model. A date at the end of the name is ignored if the whole name has
// no price. The price of an unknown model is 0.
func (c *Config) priceOf(id string) Price {
	for _, table := range []map[string]Price{c.Prices, prices} {
		if p, ok := table[id]; ok {
			return p
		}
		if i := strings.LastIndex(id, "-20"); i > 0 {
			if p, ok := table[id[:i]]; ok {
				return p
			}
		}
	}
	return Price{}
}

// usd returns the cost of the tokens in US dollars.
func (p Price) usd(u tokens) float64 {
	return (float64(u.input)*p.Input + float64(u.output)*p.Output + float64(u.cached)*p.CacheRead + float64(u.written)*p.CacheWrite) / 1e6
}

// useBuiltinModelTable gives the library a table of models, so that it does not download one from models.dev for every request.
var useBuiltinModelTable = sync.OnceValue(func() error {
	store, err := modelsdev.NewStore()
	if err != nil {
		return err
	}
	db := &modelsdev.Database{Providers: map[string]modelsdev.Provider{}}
	for id, p := range prices {
		provider, model, _ := strings.Cut(id, "/")
		if db.Providers[provider].Models == nil {
			db.Providers[provider] = modelsdev.Provider{ID: provider, Models: map[string]modelsdev.Model{}}
		}
		db.Providers[provider].Models[model] = modelsdev.Model{
			ID: model, Name: model, Limit: modelsdev.Limit{Context: p.Context, Output: defaultMaxTokens},
			Cost: &modelsdev.Cost{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite},
		}
	}
	store.SetDatabaseForTesting(db) // the only function that sets it without network access
	return nil
})
