package fleet_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestSelector checks which labels a selector matches, and which texts are not selectors.
func TestSelector(t *testing.T) {
	t.Parallel()
	labels := fleet.Labels{"env": "prod", "team": "web", "owned": "", "größe/1": "ü:@+"}
	for text, want := range map[string]bool{
		"":                              true,
		"  ":                            true,
		"env=prod":                      true,
		"env==prod":                     true,
		" env = prod , team = web ":     true,
		"env=test":                      false,
		"ENV=prod":                      false,
		"env!=test":                     true,
		"env!=prod":                     false,
		"none!=prod":                    true,
		"none=":                         false,
		"owned=":                        true,
		"owned":                         true,
		"!owned":                        false,
		"!none":                         true,
		"none":                          false,
		"team in (web,api)":             true,
		"team in( api , web )":          true,
		"team in (api)":                 false,
		"team notin (api),env":          true,
		"team notin (web)":              false,
		"none notin (web)":              true,
		"none in ()":                    false,
		"größe/1=ü:@+":                  true,
		"env=prod,team in (a,b),!owned": false,
	} {
		s, err := fleet.ParseSelector("selector", text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.Matches(labels), text)
	}
	all, err := fleet.ParseSelector("selector", labels.String())
	require.NoError(t, err)
	require.True(t, all.Matches(labels))
	for _, text := range []string{
		",", "env=prod,", "=prod", "!", "env=a b", "env prod", "team in", "team in (a", "team of (a)", "team in (a))", "(a)", "env=a(b)", "-x", "a=\"b\"", "a=\x00",
		strings.Repeat("a", 64), "a=" + strings.Repeat("b", 254), strings.Repeat("a,", 3000),
	} {
		_, err := fleet.ParseSelector("selector", text)
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), text)
		require.ErrorContains(t, err, "selector")
	}
}

// FuzzSelector checks that any text gives a selector or an error, and that a selector without requirements comes only from a
// blank text.
func FuzzSelector(f *testing.F) {
	f.Add("env=prod,team in (a,b),!x")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := fleet.ParseSelector("selector", text)
		if err == nil && len(s) == 0 && !fleet.IsBlank(text) {
			t.Fatalf("%q selects everything", text)
		}
	})
}
