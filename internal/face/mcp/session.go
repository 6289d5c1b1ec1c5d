package mcp

import (
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"
)

// maxSessions is how many sessions a caller may have. A further session replaces the one that was idle the longest.
const maxSessions = 1000

// sessions holds the MCP sessions of clients whose protocol revision has sessions. A session belongs to the caller who
// began it and is unknown to others. It only limits which requests a cancellation may reach; the token of each request
// identifies the caller. The sessions of mcp-go are not used, because mcp-go accepts session ids that nobody issued,
// shares its sessions among all streams, and keeps them forever.
//
// An id is RANDOM.PROCESS.SIGNATURE. All servers on a store sign with the same key. So a server accepts the sessions that
// another server, or an earlier process, has begun for the caller.
type sessions struct {
	key     []byte
	process string // names this process in ids
	ttl     time.Duration
	now     func() time.Time

	mu   sync.Mutex
	byID map[string]*list.Element
	idle map[string]*list.List // of *session by caller, most recently used first
}

type session struct {
	id, caller string
	used       time.Time
}

// newSessions returns the sessions of a process. Without a key, it accepts only its own sessions.
func newSessions(key []byte, ttl time.Duration, now func() time.Time) *sessions {
	if len(key) == 0 {
		key = []byte(rand.Text())
	}
	return &sessions{key: key, process: rand.Text(), ttl: ttl, now: now, byID: map[string]*list.Element{}, idle: map[string]*list.List{}}
}

// begin makes a session for the caller and returns its unguessable id.
func (s *sessions) begin(caller string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := rand.Text() + "." + s.process
	id := text + "." + s.sign(caller, text)
	s.add(caller, id)
	return id
}

// sign returns the signature of the caller's session whose id begins with the text.
func (s *sessions) sign(caller, text string) string {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write([]byte("mcp session\x00" + text + "\x00" + caller))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// isElsewhere reports whether another process has begun a session of the caller with the id.
func (s *sessions) isElsewhere(caller, id string) bool {
	at := strings.LastIndexByte(id, '.')
	return at >= 0 && !strings.HasSuffix(id[:at], "."+s.process) && hmac.Equal([]byte(id[at+1:]), []byte(s.sign(caller, id[:at])))
}

// add adds a session.
func (s *sessions) add(caller, id string) *list.Element {
	for c := range s.idle { // also the sessions of other callers, who may never return
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
	e := own.PushFront(&session{id: id, caller: caller, used: s.now()})
	s.byID[id] = e
	return e
}

// use reports whether the caller has a session with the id that has not expired, and marks it as used.
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

// end removes a session of the caller and reports whether it existed.
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

// find removes the caller's expired sessions. It returns the list element of the session with the id, or nil if the
// session does not exist or belongs to another caller.
func (s *sessions) find(caller, id string) *list.Element {
	s.expire(caller)
	e := s.byID[id]
	switch {
	case e == nil && s.isElsewhere(caller, id):
		return s.add(caller, id)
	case e == nil || e.Value.(*session).caller != caller:
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
