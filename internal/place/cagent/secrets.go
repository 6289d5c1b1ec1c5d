//go:build cgo

package cagent

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// secrets provides variables of the server's environment, and records their values so that they can be hidden. It
// implements the library's environment.Provider.
type secrets struct {
	lookup func(string) (string, bool)
	only   []string // allowed names; nil: all but the server's own

	mu     sync.Mutex
	values []string // longest first
}

// shortest is the minimum length of a hidden value. Shorter values are not secrets, and occur in many words.
const shortest = 6

// Get implements environment.Provider.
func (s *secrets) Get(_ context.Context, name string) (string, bool) {
	if s.only != nil && !slices.Contains(s.only, name) || serversOwn(name) {
		return "", false
	}
	v, ok := s.lookup(name)
	if ok && len(v) >= shortest {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !slices.Contains(s.values, v) {
			s.values = append(s.values, v)
			slices.SortFunc(s.values, func(a, b string) int { return len(b) - len(a) })
		}
	}
	return v, ok
}

// serversOwn reports whether the variable configures the server, and must not be visible to agents.
func serversOwn(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_")
}

// hide removes the values that were read from the text.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, "[hidden]")
	}
	return text
}
