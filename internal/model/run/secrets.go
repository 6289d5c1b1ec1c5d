//go:build cgo

package run

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
)

// secrets provides variables of the environment, and records the values that were read so that hide can remove them
// from texts. It implements the library's environment.Provider.
type secrets struct {
	allowed []string // names of the allowed variables; nil: all except the server's own

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
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.values, v) {
			s.values = append(s.values, v)
			slices.SortFunc(s.values, func(a, b string) int { return len(b) - len(a) })
		}
	}
	return v, ok
}

// hide returns the text with "[hidden]" in place of each value of at least minSecretLength bytes that Get has returned.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, "[hidden]")
	}
	return text
}
