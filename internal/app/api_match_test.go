package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// placeholders in an expected answer match any text of their form.
var placeholders = map[string]*regexp.Regexp{
	"<text>":   regexp.MustCompile(`(?s)^.+$`),
	"<uuid>":   regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
	"<time>":   regexp.MustCompile(`^20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ$`),
	"<cursor>": regexp.MustCompile(`^[1-9]\d*$`),
	"<secret>": regexp.MustCompile(`^fleet_[A-Z2-7]{52}$`),
}

// mismatches compares got with want, which are decoded JSON, and returns descriptions of the differences. In want,
// there may be placeholders. "<any>" matches any value, "<says X>" matches any text that contains X, and "<more>" at
// the end of a list matches any further items. Objects in got may have additional keys.
func mismatches(want, got any) []string { return mismatchesAt("", want, got, false) }

// exactMismatches is mismatches for objects that may not have additional keys.
func exactMismatches(want, got any) []string { return mismatchesAt("", want, got, true) }

// mismatchesAt is mismatches or, with exact, exactMismatches, for the values at the path.
func mismatchesAt(path string, want, got any, exact bool) []string {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			break
		}
		var diff []string
		for _, k := range slices.Sorted(maps.Keys(want)) {
			v, ok := m[k]
			if !ok {
				diff = append(diff, fmt.Sprintf("%s.%s is missing", path, k))
				continue
			}
			diff = append(diff, mismatchesAt(path+"."+k, want[k], v, exact)...)
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if _, ok := want[k]; !ok && exact {
				diff = append(diff, fmt.Sprintf("%s.%s is %s and should not be there", path, k, shortJSON(m[k])))
			}
		}
		return diff
	case []any:
		list, ok := got.([]any)
		if !ok {
			break
		}
		if n := len(want) - 1; n >= 0 && want[n] == "<more>" && len(list) >= n {
			want, list = want[:n], list[:n]
		}
		if len(list) != len(want) {
			return []string{fmt.Sprintf("%s has %d items and should have %d: %s", path, len(list), len(want), shortJSON(got))}
		}
		var diff []string
		for i := range want {
			diff = append(diff, mismatchesAt(fmt.Sprintf("%s[%d]", path, i), want[i], list[i], exact)...)
		}
		return diff
	case string:
		if want == "<any>" || want == got {
			return nil
		}
		text, ok := got.(string)
		if pattern := placeholders[want]; ok && pattern != nil && pattern.MatchString(text) {
			return nil
		}
		if part, is := strings.CutPrefix(want, "<says "); ok && is && strings.Contains(text, strings.TrimSuffix(part, ">")) {
			return nil
		}
	default:
		if want == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %s and should be %s", path, shortJSON(got), shortJSON(want))}
}

// shortJSON returns the value as JSON, shortened to 600 bytes.
func shortJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > 600 {
		return string(b[:600]) + "..."
	}
	return string(b)
}

func TestMismatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, got string
		exact     bool
		diff      []string
	}{
		{`{"a":1,"b":[null,true]}`, `{"b":[null,true],"a":1}`, true, nil},
		{`{"a":1}`, `{"a":"1"}`, false, []string{`.a is "1" and should be 1`}},
		{`{"a":1}`, `{"a":1,"b":2}`, false, nil},
		{`{"a":1}`, `{"a":1,"b":2}`, true, []string{`.b is 2 and should not be there`}},
		{`{"a":null}`, `{}`, false, []string{`.a is missing`}},
		{`{"a":{"b":1}}`, `{"a":{"b":1,"c":2}}`, true, []string{`.a.c is 2 and should not be there`}},
		{`[1,2]`, `[1]`, false, []string{` has 1 items and should have 2: [1]`}},
		{`[1,"<more>"]`, `[1,2,3]`, true, nil},
		{`["<more>"]`, `[]`, true, nil},
		{`["<time>","<uuid>","<text>","<any>","<says b>"]`, `["2025-10-29T10:30:45Z","7f2c1b9e-0c4d-4a3e-9b1a-5d2f8e6a7c10","x",null,"abc"]`, true, nil},
		{`"<time>"`, `"2025-10-29T10:30:45.5Z"`, true, []string{` is "2025-10-29T10:30:45.5Z" and should be "\u003ctime\u003e"`}},
		{`"<text>"`, `""`, true, []string{` is "" and should be "\u003ctext\u003e"`}},
		{`"<says d>"`, `"abc"`, true, []string{` is "abc" and should be "\u003csays d\u003e"`}},
		{`{}`, `[]`, true, []string{` is [] and should be {}`}},
	} {
		want, err := decodeJSON([]byte(c.want))
		require.NoError(t, err)
		got, err := decodeJSON([]byte(c.got))
		require.NoError(t, err)
		compare := mismatches
		if c.exact {
			compare = exactMismatches
		}
		require.Equal(t, c.diff, compare(want, got), "%s %s", c.want, c.got)
	}
}
