package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestSanitizer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\ttext\r\n":                   "plain\ttext\n",
		"rm -rf /\rls      \r\r\nx\r":       "rm -rf /\nls      \nx",
		"a\u200eb\u061cc":                   "abc",
		"\x1b[1;31mred\x1b[0m":              "\x1b[1;31mred\x1b[0m",
		"a\x1b]0;title\ab":                  "ab",
		"a\x1b]52;c;Zm9v\x1b\\b":            "ab",
		"a\x1bPq#0\x1b\\b":                  "ab",
		"a\x1b[2J\x1b[10;10Hb":              "ab",
		"a\u009b31mb\u009d0;x\u009cc":       "a\x1b[31mbc",
		"a\bb\x00c\x7fd":                    "abcd",
		"a\u202eb":                          "ab",
		"a\x1b[" + strings.Repeat("1", 100): "a" + strings.Repeat("1", 67),
		"日本 ✓":                              "日本 ✓",
	} {
		require.Equal(t, want, (&sanitizer{colors: true}).clean(text), "%q", text)
	}
	require.Equal(t, "red", (&sanitizer{}).clean("\x1b[31mred\x1b[0m"))
}

func TestSanitizerWithSplitText(t *testing.T) {
	t.Parallel()
	text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x1b[]P\\0123;mJ\a\r\n\u009b\u009d\u009c"))))
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(text).Draw(t, "pieces")
		inPieces, whole := &sanitizer{}, &sanitizer{}
		var got strings.Builder
		for _, p := range pieces {
			got.WriteString(inPieces.clean(p))
		}
		require.Equal(t, whole.clean(strings.Join(pieces, "")), got.String())
		for _, r := range got.String() {
			require.False(t, unicode.IsControl(r) && !strings.ContainsRune("\n\t", r), "%q", r)
		}
	})
}

// TestDocumentsAreEscaped checks that documents for programs contain no characters that a terminal would interpret, and
// still have the same content.
func TestDocumentsAreEscaped(t *testing.T) {
	t.Parallel()
	text := "a\u202eb\u200f\u009b31m\x7f\x1b[2J\rc\n\u2066"
	entry := &fleetv1.AuditEntry{Target: text}
	line, err := jsonLine(entry)
	require.NoError(t, err)
	documents := map[string]func([]byte, any) error{line: json.Unmarshal}
	for f, decode := range map[format]func([]byte, any) error{jsonFormat: json.Unmarshal, yamlFormat: yaml.Unmarshal} {
		document, err := f.document([]byte(line))
		require.NoError(t, err)
		documents[document] = decode
	}
	require.Len(t, documents, 3)
	for document, decode := range documents {
		require.Equal(t, -1, strings.IndexFunc(document, func(r rune) bool { return unicode.IsControl(r) && r != '\n' || isDirectional(r) }), "%q", document)
		var got struct{ Target string }
		require.NoError(t, decode([]byte(document), &got))
		require.Equal(t, text, got.Target)
	}
}

// FuzzSanitize checks that the output of an agent cannot control the terminal, however the output is split.
func FuzzSanitize(f *testing.F) {
	f.Add("\x1b]0;title\x07text\x1b[31mred\x1b[0m", 3)
	f.Add("\u202etext\x9b31m\x1b[2J\x1bP\x1b\\", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		s := &sanitizer{}
		for _, shown := range []string{s.clean(text[:at]) + s.clean(text[at:]), printable(text)} {
			require.Equal(t, -1, strings.IndexFunc(shown, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t' || isDirectional(r)
			}), "%q", shown)
		}
	})
}
