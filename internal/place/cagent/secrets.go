//go:build cgo

package cagent

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// secrets gives out variables of the server's environment, and knows afterwards what must not be seen. It is the
// library's environment.Provider.
type secrets struct {
	lookup func(string) (string, bool)
	only   []string // nil: every name but the server's own

	mu     sync.Mutex
	values []string // longest first
}

// shortest is how long a value must be to be hidden: shorter ones are no secrets, and are part of every other word.
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

// serversOwn reports whether the variable is the server's own configuration, which no agent has to do with.
func serversOwn(name string) bool {
	return strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_")
}

// hide returns the text without the secrets that were given out.
func (s *secrets) hide(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.values {
		text = strings.ReplaceAll(text, v, "[hidden]")
	}
	return text
}
