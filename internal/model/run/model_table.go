//go:build cgo

package run

import (
	"strings"
	"sync"

	"github.com/docker/cagent/pkg/modelsdev"

	"fleet/internal/price"
)

// useBuiltinModelTable gives the library a table of models, so that it does not download one from models.dev for every request.
var useBuiltinModelTable = sync.OnceValue(func() error {
	store, err := modelsdev.NewStore()
	if err != nil {
		return err
	}
	db := &modelsdev.Database{Providers: map[string]modelsdev.Provider{}}
	for id, p := range price.Published {
		provider, model, _ := strings.Cut(id, "/")
		if db.Providers[provider].Models == nil {
			db.Providers[provider] = modelsdev.Provider{ID: provider, Models: map[string]modelsdev.Model{}}
		}
		db.Providers[provider].Models[model] = modelsdev.Model{
			ID: model, Name: model, Limit: modelsdev.Limit{Context: p.ContextWindow, Output: defaultMaxTokens},
			Cost: &modelsdev.Cost{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite},
		}
	}
	store.SetDatabaseForTesting(db) // no other function sets the table without network access
	return nil
})
