package mcp

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"
)

// maxSessions is how many sessions a caller has at most; the one that was idle the longest makes room.
const maxSessions = 1000

// sessions are the sessions of the revisions of the protocol that have them. A session belongs to the caller who began it,
// and is unknown to all others. It says which requests a cancellation may reach, and nothing else: who calls is said by
// the token of each request. mcp-go's own sessions take an id that nobody gave out, are shared by the streams of all calls
// under way, and are kept for ever.
type sessions struct {
	ttl time.Duration
	now func() time.Time

	mu   sync.Mutex
	byID map[string]*list.Element
	idle map[string]*list.List // of *session by caller, the one used last in front
}

type session struct {
	id, caller string
	used       time.Time
}

func newSessions(ttl time.Duration, now func() time.Time) *sessions {
	return &sessions{ttl: ttl, now: now, byID: map[string]*list.Element{}, idle: map[string]*list.List{}}
}

// begin makes a session of the caller and returns its id, which cannot be guessed.
func (s *sessions) begin(caller string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.idle { // the others' too, so that nothing is left of callers who are gone
		s.expire(c)
	}
	own := s.idle[caller]
	if own == nil {
		own = list.New()
		s.idle[caller] = own
	}
	if own.Len() >= maxSessions {
		s.remove(own, own.Back())
	}
	id := rand.Text()
	s.byID[id] = own.PushFront(&session{id: id, caller: caller, used: s.now()})
	return id
}

// use reports whether the caller has a session of the id that is not idle too long.
func (s *sessions) use(caller, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(caller, id)
	if e == nil {
		return false
	}
	e.Value.(*session).used = s.now()
	s.idle[caller].MoveToFront(e)
	return true
}

// end removes a session of the caller, and reports whether there was one.
func (s *sessions) end(caller, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(caller, id)
	if e == nil {
		return false
	}
	s.remove(s.idle[caller], e)
	return true
}

// find returns the session of the caller, or nil if it does not exist or belongs to another one.
func (s *sessions) find(caller, id string) *list.Element {
	s.expire(caller)
	e := s.byID[id]
	if e == nil || e.Value.(*session).caller != caller {
		return nil
	}
	return e
}

// expire removes the caller's sessions that were idle too long.
func (s *sessions) expire(caller string) {
	own := s.idle[caller]
	if own == nil {
		return
	}
	for e := own.Back(); e != nil && s.now().Sub(e.Value.(*session).used) >= s.ttl; e = own.Back() {
		s.remove(own, e)
	}
	if own.Len() == 0 {
		delete(s.idle, caller)
	}
}

func (s *sessions) remove(own *list.List, e *list.Element) {
	delete(s.byID, e.Value.(*session).id)
	own.Remove(e)
}
