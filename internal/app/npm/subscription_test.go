package npm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// subscriptionToken is the token of the subscription.
const subscriptionToken = "sk-ant-oat01-stub"

// windowTime is how long the window of five hours stays used up.
const windowTime = 12 * time.Second

// subscription is the account of subscriptionToken. The first step "limit" with a text uses up the window of five hours.
type subscription struct {
	startedAt time.Time
	mu        sync.Mutex
	usedUpBy  map[string]bool // the texts of the "limit" steps so far
	resetsAt  time.Time       // the end of the last period in which the window was used up; zero if there was none
	refused   []request       // since the last call of takeRefused
}

// newSubscriptionModel returns a model that is used with the token of a subscription.
func newSubscriptionModel(t *testing.T) *model {
	t.Helper()
	m := newModel(t)
	m.subscription = &subscription{startedAt: time.Now(), usedUpBy: map[string]bool{}}
	return m
}

// admit reports whether the model may answer the request. If the token is wrong, or the window is used up and the
// subscription does not pay for the excess, admit responds with an error and returns false. Unless the token is wrong, it
// sets the headers that describe the windows.
func (s *subscription) admit(w http.ResponseWriter, q request, next step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Header.Get("Authorization") != "Bearer "+subscriptionToken {
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	now := time.Now()
	if next.verb == "limit" && !s.usedUpBy[next.text] {
		s.usedUpBy[next.text] = true
		s.resetsAt = now.Add(windowTime).Truncate(time.Second)
	}
	status, used, resets, overage := "allowed", 0.41, s.startedAt.Add(2*time.Hour), "rejected"
	switch {
	case now.Before(s.resetsAt):
		status, used, resets = "rejected", 1, s.resetsAt
	case next.verb == "extra":
		status, used, overage = "rejected", 1, "allowed"
	}
	for name, value := range map[string]string{
		"status": status, "representative-claim": "five_hour", "reset": unixSeconds(resets),
		"5h-status": status, "5h-utilization": fmt.Sprint(used), "5h-reset": unixSeconds(resets),
		"7d-status": "allowed", "7d-utilization": "0.2", "7d-reset": unixSeconds(s.startedAt.Add(96 * time.Hour)),
		"overage-status": overage,
	} {
		w.Header().Set("anthropic-ratelimit-unified-"+name, value)
	}
	if status == "allowed" || overage == "allowed" {
		return true
	}
	s.refused = append(s.refused, q)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "rate_limit_error", "message": "This request would exceed your account's rate limit."}})
	return false
}

func unixSeconds(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// takeRefused returns when the used-up window resets, and the requests that were refused since the last call.
func (s *subscription) takeRefused() (resets time.Time, refused []request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused, s.refused = s.refused, nil
	return s.resetsAt, refused
}
