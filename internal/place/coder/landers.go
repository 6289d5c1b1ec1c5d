package coder

import (
	"sync"
)

// landers remembers which workspaces have copies of the repositories, by project, so that the next call finds what the last one made.
type landers struct {
	mu    sync.Mutex
	names map[string]string
}

func (l *landers) last(project string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[project]
}

func (l *landers) set(project, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil {
		l.names = map[string]string{}
	}
	l.names[project] = name
}
