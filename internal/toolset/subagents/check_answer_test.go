package subagents

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	d := &Definition{OutputFormat: outputJSON}
	for answer, want := range map[string]string{
		` {"a": 1} `:                      `{"a": 1}`,
		"```json\n{\"a\": 1}\n```":        `{"a": 1}`,
		"```\n[1]\n```":                   `[1]`,
		"```{\"a\":\n1}```":               "{\"a\":\n1}",
		"null":                            "null",
		`"text"`:                          `"text"`,
		`12345678901234567890.1234567890`: `12345678901234567890.1234567890`,
	} {
		value, problems := d.checkAnswer(answer)
		require.Empty(t, problems, answer)
		require.Equal(t, want, value)
	}
	for answer, want := range map[string]string{
		"":                   "it is not JSON",
		"Sure! {\"a\": 1}":   "it is not JSON",
		"{} {}":              "more than one",
		"{\"a\": 1} I hope.": "more than one",
		"{'a': 1}":           "it is not JSON",
	} {
		_, problems := d.checkAnswer(answer)
		require.Len(t, problems, 1, answer)
		require.Contains(t, problems[0], want)
	}
	d, err := parse(directorySource("a"), []byte("---\noutput_schema: {type: array, items: {type: integer}}\n---\n"), nil, testDrivers)
	require.NoError(t, err)
	_, problems := d.checkAnswer(`["a","b","c","d","e","f","g","h","i","j","k","l"]`)
	require.Equal(t, "and 2 more", problems[len(problems)-1])
}
