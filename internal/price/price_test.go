package price_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/price"
)

func TestList(t *testing.T) {
	t.Parallel()
	list := price.NewList(map[string]fleet.Price{"mine/bird-1": {Input: 7}, "openai/gpt-5": {Input: 9}})
	for model, want := range map[string]float64{
		"anthropic/claude-sonnet-4-5":          3,
		"claude-sonnet-4-5":                    3,
		"claude-sonnet-4-5-20250929":           3,
		"anthropic/claude-sonnet-4-5-20250929": 3,
		"openai/gpt-5":                         9,
		"bird-1":                               7,
		"openai/claude-sonnet-4-5":             0,
		"":                                     0,
		"sonnet-4-5":                           0,
	} {
		p, ok := list.Of(model)
		require.Equal(t, want > 0, ok, model)
		require.InDelta(t, want, p.Input, 1e-9, model)
	}
	require.InDelta(t, 1.25, price.Published["openai/gpt-5"].Input, 1e-9, "the published prices must not change")
}

func TestUSD(t *testing.T) {
	t.Parallel()
	p := fleet.Price{Input: 1, Output: 10, CacheRead: 0.1, CacheWrite: 2}
	require.InDelta(t, (1000*1+100*10+5000*0.1+200*2)/1e6, p.USD(fleet.RequestUsage{Input: 1000, Output: 100, CacheRead: 5000, CacheWrite: 200}), 1e-12)
}

func TestListInJSON(t *testing.T) {
	t.Parallel()
	for _, l := range []*price.List{{}, price.NewList(nil), price.NewList(map[string]fleet.Price{"mine/bird-1": {Input: 7}})} {
		data, err := json.Marshal(l)
		require.NoError(t, err)
		var again *price.List
		require.NoError(t, json.Unmarshal(data, &again))
		want, ok := l.Of("mine/bird-1")
		got, gotOK := again.Of("mine/bird-1")
		require.Equal(t, ok, gotOK)
		require.Equal(t, want, got)
	}
}
