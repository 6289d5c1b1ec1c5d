package providers

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/local"
)

// TestRows checks that each row of parameterTable names its source, accepts only known keys, and is the first match for
// some model. It also checks that each vendor of the built-in table has a row.
func TestRows(t *testing.T) {
	t.Parallel()
	for i, r := range parameterTable {
		require.NotEmpty(t, r.source, "row %d", i)
		for _, key := range r.keys {
			require.Contains(t, configOptions, key, "row %d", i)
		}
		p := &Provider{Vendor: r.vendor}
		model := "any"
		if len(r.models) > 0 {
			model = r.models[len(r.models)-1]
		}
		for _, protocol := range r.protocols {
			p.Protocol = protocol
		}
		require.Same(t, &parameterTable[i], parameterRowOf(p, model), "row %d must be the first match for its model", i)
	}
	for _, p := range builtinProviders(local.Drivers()) {
		if p.Kind != KindCLI {
			require.True(t, slices.Contains(vendors(), p.Vendor), p.Name)
		}
	}
}
