package storetest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// testBody is the JSON body of the resources in these cases.
type testBody struct {
	Text string `json:"text"`
}

var resourceCases = []testCase{
	{"a resource is found by its kind and name, replaced and deleted", func(t *testing.T, s fleet.Store) {
		put := func(kind fleet.ResourceKind, name, text string) {
			update(t, s, func(tx fleet.Tx) error { return fleet.PutResource(tx, kind, name, testBody{text}) })
		}
		texts := func(f fleet.ResourceFilter) (all []string) {
			for _, d := range read(t, s, func(tx fleet.ReadTx) ([]*testBody, error) { return fleet.ReadResources[testBody](tx, f) }) {
				all = append(all, d.Text)
			}
			return all
		}
		put("pool", "web", "two")
		put("pool", "api", "one ' ü")
		put("budget", "web", "three")
		require.Equal(t, []string{"one ' ü", "two"}, texts(fleet.ResourceFilter{Kind: "pool"}))
		require.Equal(t, []string{"three"}, texts(fleet.ResourceFilter{Kind: "budget", Name: "web"}))
		require.Empty(t, texts(fleet.ResourceFilter{}))
		require.Empty(t, texts(fleet.ResourceFilter{Name: "web"}))
		put("pool", "web", "four")
		r := read(t, s, func(tx fleet.ReadTx) ([]*fleet.Resource, error) {
			return tx.Resources(fleet.ResourceFilter{Kind: "pool", Name: "web"})
		})
		require.Equal(t, int64(2), r[0].Revision)
		update(t, s, func(tx fleet.Tx) error {
			return errors.Join(tx.Delete(r[0]), tx.Delete(&fleet.Resource{Kind: "pool", Name: "none"}))
		})
		require.Equal(t, []string{"one ' ü"}, texts(fleet.ResourceFilter{Kind: "pool"}))
	}},
}
