package schema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/schema"
)

// TestPatterns checks expressions of ECMAScript. Go's package regexp does not support most of them.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, c := range map[string]struct{ good, bad string }{
		`^(?=.*[0-9])(?=.*[a-z]).{4,}$`: {"abc1", "abcd"},
		`^(?!.*secret)`:                 {"plain", "a secret"},
		`^(?<a>x|y)\k<a>$`:              {"xx", "xy"},
		`(?<=\$)\d+$`:                   {"$12", "12"},
		`^\u00e9$`:                      {"é", "e"},
		`^\d{4}-\d\d$`:                  {"2026-11", "26-11"},
		`^\p{L}+$`:                      {"Åse", "a1"},
	} {
		s, err := schema.Compile([]byte(`{"type":"string","pattern":"` + strings.ReplaceAll(pattern, `\`, `\\`) + `"}`))
		require.NoError(t, err, pattern)
		require.Empty(t, s.Check([]byte(`"`+c.good+`"`)), pattern)
		require.Len(t, s.Check([]byte(`"`+c.bad+`"`)), 1, pattern)
	}
	s, err := schema.Compile([]byte(`{"pattern":"^(?=(a+)+$)b"}`))
	require.NoError(t, err)
	require.NotEmpty(t, s.Check([]byte(`"`+strings.Repeat("a", 60)+`!"`)), "an expression that takes exponential time must end")
}

// TestCompileRefuses checks the errors of schemas that cannot be used.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"pattern":"(("}`:                      "regex",
		`{"$ref":"file:///etc/passwd"}`:         "another document",
		`{"$ref":"https://example.com/schema"}`: "another document",
		`{"type":"strange"}`:                    "at /type",
		`{`:                                     "EOF",
	} {
		_, err := schema.Compile([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
