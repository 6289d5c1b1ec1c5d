package fleet

import (
	"context"
	"slices"
	"time"
)

// WebhookKind is the kind of the resources that are webhooks.
const WebhookKind ResourceKind = "webhook"

// Webhook sends events to a URL, on behalf of its owner.
type Webhook struct {
	UID      string        `json:"uid"` // unique: a later webhook with the same name has another UID
	Name     string        `json:"name"`
	Owner    string        `json:"owner"`
	URL      string        `json:"url"`
	Topics   []Topic       `json:"topics"`
	Selector string        `json:"selector,omitempty"` // restricts the events to those of tasks (or, without a task, of agents) whose labels match
	Kind     PrincipalKind `json:"kind"`               // Kind, Scope and Projects are those of the credentials with which the owner last changed the webhook
	Scope    Scope         `json:"scope"`
	Projects []string      `json:"projects,omitempty"`
	ByToken  bool          `json:"by_token,omitempty"` // whether these credentials were a token of this server

	// SecretSalts has the salt of the newest secret, and then that of the previous secret if it may still be valid.
	SecretSalts []WebhookSalt `json:"keys"`
	// Cursor is the Seq of the last event that was handled: its deliveries, if any, were created.
	Cursor int64 `json:"cursor"`
	// DisabledReason says why the webhook is disabled; empty if it is not.
	DisabledReason string `json:"disabled,omitempty"`
	// FailingSince is when the first attempt after the last success failed; zero if the last attempt succeeded.
	FailingSince time.Time `json:"failing_since,omitzero"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// WebhookDisabled is the status of the event for a webhook that was disabled because its receiver kept failing.
const WebhookDisabled = "disabled"

// WebhookSalt is the salt with which a secret of a webhook is derived from the secret of the fleet. So the store need not contain the
// secret of the webhook.
type WebhookSalt struct {
	Value string    `json:"salt"`
	Ends  time.Time `json:"ends,omitzero"` // when the secret stops being valid; zero for the newest one
}

// Limits of webhooks.
const (
	MaxWebhooks           = 500            // in the fleet
	maxWebhookName        = 63             // in bytes
	MaxWebhookURL         = 2048           // in bytes
	DefaultWebhookOverlap = 24 * time.Hour // how long the old secret stays valid by default
	MaxWebhookOverlap     = 7 * 24 * time.Hour
	WebhookFailureLimit   = 3 * 24 * time.Hour // a webhook is disabled after all its attempts have failed for this long
)

// Key returns the name of the webhook with its owner. No two webhooks have the same key.
func (w *Webhook) Key() string { return OwnedKey(w.Name, w.Owner) }

// VisibleTo reports whether the webhook exists for p.
func (w *Webhook) VisibleTo(p Principal) bool { return p.seesOwned(w.Owner, w.Projects) }

// Validate returns INVALID_ARGUMENT if a value of the webhook is not valid. It does not check whether the host of the URL is
// allowed.
func (w *Webhook) Validate() error {
	switch {
	case len(w.Name) > maxWebhookName || !namePattern.MatchString(w.Name):
		return InvalidField("name", "the webhook's name is %q: use 1 to %d letters, digits and single hyphens between them", Shorten(w.Name, 80), maxWebhookName)
	case w.URL == "":
		return InvalidField("url", "url is required: give the URL of the receiver, such as https://example.com/fleet")
	case len(w.URL) > MaxWebhookURL:
		return InvalidField("url", "url has %d bytes: use at most %d", len(w.URL), MaxWebhookURL)
	case len(w.Topics) == 0:
		return InvalidField("topics", "topics is required: give %s, %s, or types of events such as %s", TopicNeedsMe, TopicAll, EventTaskEnded)
	}
	if err := ValidateTopics(w.Topics); err != nil {
		return err
	}
	_, err := ParseSelector("selector", w.Selector)
	return err
}

// ValidateTopics returns INVALID_ARGUMENT if one of the topics is not valid.
func ValidateTopics(topics []Topic) error {
	for i, t := range topics {
		if t != TopicAll && t != TopicNeedsMe && !slices.Contains(WebhookEvents, EventType(t)) {
			return InvalidField("topics", "topics has %q, which webhooks cannot send: give %s, %s, or types of events such as %s", Shorten(string(t), 60), TopicNeedsMe, TopicAll, EventTaskEnded)
		}
		if slices.Contains(topics[:i], t) {
			return InvalidField("topics", "topics has %q twice: leave one out", t)
		}
	}
	return nil
}

// Principal returns the principal that must see an event so that the webhook sends it. The result has no groups.
func (w *Webhook) Principal() Principal {
	return Principal{Name: w.Owner, Kind: w.Kind, Scope: w.Scope, Projects: w.Projects}
}

// Rotate gives the webhook a new secret with the salt. The previous secret stays valid for the duration overlap. A secret before that
// one is no longer valid.
func (w *Webhook) Rotate(salt string, now time.Time, overlap time.Duration) {
	old := w.SecretSalts[0]
	old.Ends = now.Add(overlap)
	w.SecretSalts = []WebhookSalt{{Value: salt}, old}
}

// OldSecretEnds returns when the old secret stops being valid; zero if no old secret is valid.
func (w *Webhook) OldSecretEnds(now time.Time) time.Time {
	if len(w.SecretSalts) > 1 && w.SecretSalts[1].Ends.After(now) {
		return w.SecretSalts[1].Ends
	}
	return time.Time{}
}

// ValidSalts returns the salts of the valid secrets, the newest first.
func (w *Webhook) ValidSalts(now time.Time) []string {
	salts := []string{w.SecretSalts[0].Value}
	if !w.OldSecretEnds(now).IsZero() {
		salts = append(salts, w.SecretSalts[1].Value)
	}
	return salts
}

// Selects reports whether one of the webhook's topics selects the event. The webhook sends the event only if its owner may see
// it and the selector matches too.
func (w *Webhook) Selects(e Event) bool {
	return slices.ContainsFunc(w.Topics, func(t Topic) bool { return t.Selects(e) })
}

// EventTypes returns the types of the events that the webhook may send.
func (w *Webhook) EventTypes() (types []EventType) {
	for _, t := range w.Topics {
		for _, eventType := range t.eventTypes() {
			if !slices.Contains(types, eventType) {
				types = append(types, eventType)
			}
		}
	}
	return types
}

// WebhookSender sends requests to webhooks.
type WebhookSender interface {
	// Check returns INVALID_ARGUMENT if the URL cannot be that of a webhook. It does not look the host up.
	Check(url string) error

	// Send sends the request and reads the beginning of the response. It has its own time limit, which is far shorter than the
	// pauses between attempts. It connects only to public addresses and to hosts that the configuration allows, and
	// follows no redirects.
	Send(ctx context.Context, p WebhookRequest) WebhookResponse
}

// WebhookRequest is a request to a webhook.
type WebhookRequest struct {
	URL     string
	ID      string    // of the delivery
	At      time.Time // of the attempt
	Secrets []string  // the valid ones
	Body    []byte
}

// WebhookResponse is the response to a WebhookRequest, or why there is none.
type WebhookResponse struct {
	Code       int           // status of the response; 0 if there was none
	Body       string        // the beginning of the response
	RetryAfter time.Duration // from the response's Retry-After; 0 if it has none
	Error      string        // why there is no response; it never contains the URL
}

// WebhookStats are the statistics of all webhooks.
type WebhookStats struct {
	Active, Failing, Disabled int
	Oldest                    time.Time // when the oldest waiting delivery was created, disabled webhooks excluded; zero if none waits
}
