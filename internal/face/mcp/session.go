package mcp

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"
)

// maxSessions is how many sessions there are at most; the one that was idle the longest makes room.
const maxSessions = 10_000

// sessions are the sessions of the revisions of the protocol that have them. A session says which requests a
// cancellation may reach, and nothing else: who calls is said by the token of each request. mcp-go's own sessions
// take an id that nobody gave out, are shared by the streams of all calls under way, and are kept for ever.
type sessions struct {
	ttl time.Duration
	now func() time.Time

	mu   sync.Mutex
	byID map[string]*list.Element
	idle *list.List // of *session, the one used last in front
}

type session struct {
	id   string
	used time.Time
}

func newSessions(ttl time.Duration, now func() time.Time) *sessions {
	return &sessions{ttl: ttl, now: now, byID: map[string]*list.Element{}, idle: list.New()}
}

// begin makes a session and returns its id, which cannot be guessed.
func (s *sessions) begin() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if s.idle.Len() >= maxSessions {
		s.remove(s.idle.Back())
	}
	id := rand.Text()
	s.byID[id] = s.idle.PushFront(&session{id: id, used: s.now()})
	return id
}

// use reports whether there is a session of the id, and that it is not idle.
func (s *sessions) use(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[id]
	if ok {
		e.Value.(*session).used = s.now()
		s.idle.MoveToFront(e)
	}
	return ok
}

// end removes a session, and reports whether there was one.
func (s *sessions) end(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	e, ok := s.byID[id]
	if ok {
		s.remove(e)
	}
	return ok
}

// expire removes the sessions that were idle too long.
func (s *sessions) expire() {
	for e := s.idle.Back(); e != nil && s.now().Sub(e.Value.(*session).used) >= s.ttl; e = s.idle.Back() {
		s.remove(e)
	}
}

func (s *sessions) remove(e *list.Element) {
	delete(s.byID, e.Value.(*session).id)
	s.idle.Remove(e)
}
