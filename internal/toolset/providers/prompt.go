package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// promptOf returns the request as the agent reads it. A context stands before the prompt, with each value in a fence
// that the value cannot close. promptOf returns INVALID_ARGUMENT if the prompt or the context is invalid or too long.
func promptOf(prompt string, context map[string]any) (string, error) {
	if err := checkText("prompt", prompt); err != nil {
		return "", err
	}
	if strings.Trim(prompt, " \t\r\n\v\f\u00a0\u200b\ufeff") == "" {
		return "", fleet.InvalidField("prompt", "prompt is empty: say in prompt what the agent is to do")
	}
	if err := checkSize("prompt", "the prompt", len(prompt)); err != nil {
		return "", err
	}
	if len(context) == 0 {
		return prompt, nil
	}
	var b strings.Builder
	b.WriteString("# Context\n\n")
	for _, key := range slices.Sorted(maps.Keys(context)) {
		if err := checkContextKey(key); err != nil {
			return "", err
		}
		text, language, err := valueText(key, context[key])
		if err != nil {
			return "", err
		}
		fence := fenceFor(text)
		fmt.Fprintf(&b, "## %s\n\n%s%s\n%s\n%s\n\n", key, fence, language, strings.TrimRight(text, "\n"), fence)
	}
	b.WriteString("# Request\n\n")
	b.WriteString(prompt)
	return b.String(), checkSize("context", "the context with the prompt", b.Len())
}

// maxContextKey is the maximum length of a key in a request's context, in bytes.
const maxContextKey = 200

func checkContextKey(key string) error {
	if key == "" || len(key) > maxContextKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fleet.InvalidField("context", "context has the key %q: use 1 to %d characters on one line", shorten(key), maxContextKey)
	}
	return nil
}

// maxIndented is the maximum size of a value that is indented, in bytes. Indentation multiplies the size of a value that has
// many small parts.
const maxIndented = 16 << 10

// valueText returns a context value as text: a string unchanged, any other value as JSON. language is the word after the
// opening fence, "json" or "".
func valueText(key string, value any) (text, language string, err error) {
	field := "context." + key
	if s, ok := value.(string); ok {
		return s, "", checkText(field, s)
	}
	if hasZeroByte(value) {
		return "", "", zeroByteError(field)
	}
	var b, indented bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil { // NaN and infinities, which only gRPC can send
		return "", "", fleet.InvalidField(field, "%s contains a number that JSON cannot express", field)
	}
	if b.Len() > maxIndented || json.Indent(&indented, b.Bytes(), "", "  ") != nil {
		return b.String(), "json", nil
	}
	return indented.String(), "json", nil
}

// hasZeroByte reports whether a text or a key in the value contains a zero byte.
func hasZeroByte(value any) bool {
	switch v := value.(type) {
	case string:
		return strings.ContainsRune(v, 0)
	case []any:
		return slices.ContainsFunc(v, hasZeroByte)
	case map[string]any:
		for k, inner := range v {
			if strings.ContainsRune(k, 0) || hasZeroByte(inner) {
				return true
			}
		}
	}
	return false
}

// checkText refuses text that no model or program accepts.
func checkText(field, text string) error {
	if !utf8.ValidString(text) {
		return fleet.InvalidField(field, "%s is not valid UTF-8 text", field)
	}
	if strings.ContainsRune(text, 0) {
		return zeroByteError(field)
	}
	return nil
}

func zeroByteError(field string) error {
	return fleet.InvalidField(field, "%s contains a zero byte, which models and programs do not accept: remove the zero byte", field)
}

func checkSize(field, what string, n int) error {
	if n > fleet.MaxText {
		return fleet.InvalidField(field, "%s has %d bytes, and the limit is %d: leave something out", what, n, fleet.MaxText)
	}
	return nil
}

// fenceFor returns a fence of backticks that is longer than every sequence of backticks in the text.
func fenceFor(text string) string {
	longest, n := 0, 0
	for _, c := range text {
		if c != '`' {
			n = 0
			continue
		}
		n++
		longest = max(longest, n)
	}
	return strings.Repeat("`", max(3, longest+1))
}
