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
		`{"multipleOf":1e2000000}`:              "the number 1e2000000",
	} {
		_, err := schema.Compile([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// TestNumbers checks that numbers with which a validator cannot compute are problems of the value, and that all others can be checked.
func TestNumbers(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(`{"properties":{"a":{"items":{"type":"number","minimum":0,"maximum":1}}}}`))
	require.NoError(t, err)
	for number, want := range map[string]string{
		"0.5": "", "1e-300": "", "1E0": "", "-0": "",
		"2": "maximum", "-1e300": "minimum",
		"1e2000000": "the number", "1e-2000000": "the number", "1e999": "the number", "-1E+401": "the number", "1e99999999999999999999": "the number",
		"0." + strings.Repeat("0", 2000) + "1": "the number",
	} {
		problems := s.Check([]byte(`{"a":[` + number + `]}`))
		if want == "" {
			require.Empty(t, problems, number)
			continue
		}
		require.Len(t, problems, 1, number)
		require.Contains(t, problems[0], want, number)
		require.Less(t, len(problems[0]), 200)
	}
}
