package cli

import (
	"encoding/json"
	"testing"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestYAMLReadsBackAsTheJSON(t *testing.T) {
	t.Parallel()
	lost := []string{"1e3", ".inf", "a\r\nb", "? a", "\x7f"} // goccy's JSONToYAML does not keep these
	text := rapid.OneOf(rapid.SampledFrom(lost), rapid.String(), rapid.StringMatching(`[ \n\ta:#'"\-\[\]{}0-9e.nulytrfasx~>|&*!%@,?\\]{0,14}`))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{
			"text":  text.Draw(t, "text"),
			"list":  []any{text.Draw(t, "item"), 1.5, true, nil},
			"map":   map[string]any{text.Draw(t, "key"): "v"},
			"empty": []any{},
			"none":  map[string]any{},
		}
		compact, err := json.Marshal(want)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(compact, &want))
		got, err := toYAML(compact)
		require.NoError(t, err)

		var back map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(got), &back), got)
		require.Equal(t, want, back, got)
		var other any
		require.NoError(t, goccy.Unmarshal([]byte(got), &other), got)
	})
}

func TestYAMLIsReadable(t *testing.T) {
	t.Parallel()
	got, err := toYAML([]byte(`{"b":"x","a":[{"id":"1e3","n":3,"when":"2025-10-29T10:00:00Z"},{"id":"two words"}],"text":"one\ntwo\n","c":null,"e":[],"no":"no"}`))
	require.NoError(t, err)
	require.Equal(t, `b: x
a:
  - id: "1e3"
    "n": 3
    when: "2025-10-29T10:00:00Z"
  - id: two words
text: |
  one
  two
c: null
e: []
"no": "no"
`, got)
}
