//go:build cgo

package run

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// secrets provides variables of the environment, and records the values that were read so that hide can remove them
// from texts. It implements the library's environment.Provider.
type secrets struct {
	allowed []string // names of the allowed variables; nil: all except the server's own
	*recorder
}

// recorder holds the values that were read. All secrets of a run share it, so that each of them hides the values of all.
type recorder struct {
	mu     sync.Mutex
	values []string // longest first
}

// minSecretLength is the minimum length of a hidden value, in bytes. Shorter values are not secrets, and occur in ordinary
// words.
const minSecretLength = 6

// Get implements environment.Provider.
func (s *secrets) Get(_ context.Context, name string) (string, bool) {
	if s.allowed != nil && !slices.Contains(s.allowed, name) || fleet.IsReservedVariable(name) {
		return "", false
	}
	v, ok := os.LookupEnv(name)
	if ok && len(v) >= minSecretLength {
		s.record(v)
	}
	return v, ok
}

func (r *recorder) record(v string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.values, v) {
		r.values = append(r.values, v)
		slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	}
}

// hide returns the text with "[hidden]" in place of each value of at least minSecretLength bytes that Get has returned.
func (r *recorder) hide(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.values {
		text = strings.ReplaceAll(text, v, "[hidden]")
	}
	return text
}

// jsonStringPattern matches a string in JSON, and the colon after it if it is a key.
var jsonStringPattern = regexp.MustCompile(`"(?:[^"\\]|\\.)*":?`)

// hideInStrings works like hide, for the strings in JSON except keys. The result is JSON too.
func (r *recorder) hideInStrings(data []byte) []byte {
	return jsonStringPattern.ReplaceAllFunc(data, func(quoted []byte) []byte {
		var text string
		if json.Unmarshal(quoted, &text) != nil { // a key
			return quoted
		}
		hidden := r.hide(text)
		if hidden == text {
			return quoted
		}
		b, _ := json.Marshal(hidden) // strings can always be encoded
		return b
	})
}
