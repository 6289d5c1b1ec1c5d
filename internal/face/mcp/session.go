package mcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// sessions issues the ids of MCP sessions to clients whose protocol revision has sessions. A session belongs to the
// caller who began it. It only limits which requests a cancellation may reach; the token of each request identifies the
// caller. The sessions of mcp-go are not used, because mcp-go accepts session ids that nobody issued.
//
// An id is RANDOM.SIGNATURE. No server keeps it, so all servers that sign with the same key accept it, even after a
// restart. It never expires, and gives no rights.
type sessions struct{ key []byte }

// newSessions returns the sessions of the servers with the key. Without a key, it accepts only the ids that it issues.
func newSessions(key []byte) sessions {
	if len(key) == 0 {
		key = []byte(rand.Text())
	}
	return sessions{key}
}

// newID returns the id of a new session of the caller.
func (s sessions) newID(caller string) string {
	random := rand.Text()
	return random + "." + s.sign(caller, random)
}

// verify reports whether the id was issued to the caller.
func (s sessions) verify(caller, id string) bool {
	random, signature, _ := strings.Cut(id, ".")
	return hmac.Equal([]byte(signature), []byte(s.sign(caller, random)))
}

func (s sessions) sign(caller, random string) string {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write([]byte("mcp session\x00" + random + "\x00" + caller))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
