package service

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// WebhookSecretPrefix begins the secrets of webhooks, as the Standard Webhooks specification requires.
const WebhookSecretPrefix = "whsec_"

// CreateWebhookRequest describes a webhook.
type CreateWebhookRequest struct {
	Name      string
	URL       string
	Topics    []fleet.Topic
	Selector  string
	RequestID string `json:"-"`
}

// WebhookView is a webhook with figures about its deliveries.
type WebhookView struct {
	fleet.Webhook
	Waiting, Failed int       // numbers of deliveries
	Oldest          time.Time // when the oldest waiting delivery was created; zero if none waits
	OldSecretEnds   time.Time // when the old secret stops being valid; zero if there is none
}

// CreateWebhook adds a webhook of the caller and returns it with its secret. The webhook sends events that happen from now on. A
// repeated call returns the secret too, unless RotateWebhook has replaced it meanwhile.
func (s *Service) CreateWebhook(ctx context.Context, r CreateWebhookRequest) (v *WebhookView, secret string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, "", err
	}
	now := s.now()
	w := &fleet.Webhook{
		UID: s.NewID(), Name: r.Name, Owner: p.Name, URL: r.URL, Topics: r.Topics, Selector: r.Selector, Kind: p.Kind, Scope: p.Scope, Projects: p.Projects, ByToken: p.TokenHash != "",
		SecretSalts: []fleet.WebhookSalt{{Value: rand.Text()}}, CreatedAt: now,
	}
	c := Call{Method: "CreateWebhook", RequestID: r.RequestID, Body: r, Refusal: s.checkWebhook(w)}
	salt := w.SecretSalts[0].Value
	result, err := s.webhooks().change(ctx, c, w.Key(), func(tx fleet.Tx, old *fleet.Webhook) (*fleet.Webhook, string, error) {
		all, err := fleet.ReadResources[fleet.Webhook](tx, fleet.ResourceFilter{Kind: fleet.WebhookKind})
		if err != nil {
			return nil, "", err
		}
		owned := 0
		for _, other := range all {
			if other.Owner == p.Name {
				owned++
			}
		}
		switch most := s.cfg.Webhooks.MaxPerOwner; {
		case old != nil:
			return nil, "", fleet.Errorf(fleet.ReasonWebhookExists, "a webhook %q already exists", w.Name).With("webhook", w.Name).With("field", "name").Next("choose another name")
		case owned >= most:
			return nil, "", fleet.LimitReached("webhooks.max_per_owner", "you have", int64(owned), int64(most), "webhooks", "{delete_webhook} deletes one")
		case len(all) >= fleet.MaxWebhooks:
			return nil, "", fleet.LimitReached("webhooks", "the fleet has", int64(len(all)), fleet.MaxWebhooks, "webhooks", "{delete_webhook} deletes one")
		}
		if w.Cursor, err = tx.LastSeq(); err != nil {
			return nil, "", err
		}
		return w, "was created by " + p.Name, nil
	})
	if err != nil {
		return nil, "", err
	}
	if result.UID != w.UID { // the call was repeated
		salt = result.SecretSalts[0].Value
		if len(result.SecretSalts) > 1 {
			return result, "", nil
		}
	}
	secret, err = s.webhookSecret(ctx, result.UID, salt)
	return result, secret, err
}

// UpdateWebhookRequest describes a change of the webhook with the name. A nil field changes nothing.
type UpdateWebhookRequest struct {
	Name      string
	URL       *string
	Topics    []fleet.Topic // empty changes nothing
	Selector  *string
	Disabled  *bool
	RequestID string `json:"-"`
}

// UpdateWebhook changes a webhook. If its owner makes the call, the webhook from then on sends the events that the owner may see
// with the rights of this call. Events that happen while the webhook is disabled are never sent.
func (s *Service) UpdateWebhook(ctx context.Context, r UpdateWebhookRequest) (*WebhookView, error) {
	if err := fleet.ValidateTopics(r.Topics); err != nil {
		return nil, err
	}
	return s.webhooks().changeNamed(ctx, Call{Method: "UpdateWebhook", RequestID: r.RequestID, Body: r}, r.Name, func(tx fleet.Tx, p fleet.Principal, w *fleet.Webhook) (text string, err error) {
		if r.URL != nil && *r.URL != w.URL && p.Name != w.Owner {
			return "", fleet.Errorf(fleet.ReasonPermissionDenied, "the webhook %q sends what %s sees, who alone can change its URL", w.Name, w.Owner).With("webhook", w.Name).Next("disable or delete it")
		}
		setIfGiven(&w.URL, r.URL)
		setIfGiven(&w.Selector, r.Selector)
		if len(r.Topics) > 0 {
			w.Topics = r.Topics
		}
		if err := s.checkWebhook(w); err != nil {
			return "", err
		}
		if p.Name == w.Owner {
			w.Kind, w.Scope, w.Projects, w.ByToken = p.Kind, p.Scope, p.Projects, p.TokenHash != ""
		}
		switch {
		case r.Disabled == nil || *r.Disabled == (w.DisabledReason != ""):
			return "was changed by " + p.Name, nil
		case *r.Disabled:
			w.DisabledReason = "disabled by " + p.Name
			return "was disabled by " + p.Name, nil
		}
		if p.Name != w.Owner {
			return "", fleet.Errorf(fleet.ReasonPermissionDenied, "the webhook %q sends what %s sees, who alone can enable it", w.Name, w.Owner).With("webhook", w.Name).Next("ask its owner")
		}
		w.DisabledReason, w.FailingSince = "", time.Time{}
		w.Cursor, err = tx.LastSeq()
		return "was enabled by " + p.Name, err
	})
}

// DeleteWebhook deletes the webhook. Its waiting deliveries are not sent.
func (s *Service) DeleteWebhook(ctx context.Context, name, requestID string) error {
	return s.webhooks().delete(ctx, Call{Method: "DeleteWebhook", RequestID: requestID, Body: name}, name)
}

// RotateWebhook gives the webhook a new secret, and returns the secret. The old secret stays valid for the duration overlap. During
// that time, each request is signed with both secrets.
func (s *Service) RotateWebhook(ctx context.Context, name string, overlap time.Duration, requestID string) (v *WebhookView, secret string, err error) {
	if overlap > fleet.MaxWebhookOverlap {
		return nil, "", fleet.InvalidField("overlap_seconds", "overlap_seconds is %d: give at most %d", int(overlap.Seconds()), int(fleet.MaxWebhookOverlap.Seconds()))
	}
	if overlap < 0 {
		return nil, "", errNegative("overlap_seconds")
	}
	v, err = s.webhooks().changeNamed(ctx, Call{Method: "RotateWebhook", RequestID: requestID, Body: []any{name, overlap}}, name, func(_ fleet.Tx, p fleet.Principal, w *fleet.Webhook) (string, error) {
		if p.Name != w.Owner {
			return "", fleet.Errorf(fleet.ReasonPermissionDenied, "only %s, who owns the webhook %q, gets its secrets", w.Owner, w.Name).With("webhook", w.Name).Next("disable or delete it")
		}
		w.Rotate(rand.Text(), s.now(), overlap)
		return "got a new secret", nil
	})
	if err != nil {
		return nil, "", err
	}
	secret, err = s.webhookSecret(ctx, v.UID, v.SecretSalts[0].Value)
	return v, secret, err
}

// ListWebhooks returns a page of the webhooks that the caller may see, sorted by name, their total number, and the cursor of the next
// page.
func (s *Service) ListWebhooks(ctx context.Context, r fleet.PageRequest) (webhooks []*WebhookView, total int, next string, err error) {
	return s.webhooks().page(ctx, r, defaultWebhooks, func(*fleet.Webhook) bool { return true })
}

// defaultWebhooks is how many webhooks ListWebhooks returns by default.
const defaultWebhooks = 100

// webhookView returns the webhook as p sees it. Only the owner sees the whole URL.
func (s *Service) webhookView(ctx context.Context, p fleet.Principal, w *fleet.Webhook) (*WebhookView, error) {
	v := &WebhookView{Webhook: *w, OldSecretEnds: w.OldSecretEnds(s.now())}
	if p.Name != w.Owner {
		v.URL = withoutPath(w.URL) // the path of a URL such as Slack's is a secret
	}
	return v, s.store.View(ctx, func(tx fleet.ReadTx) error {
		counts, err := tx.CountDeliveries(w.UID)
		v.Waiting, v.Failed, v.Oldest = 0, 0, time.Time{}
		for _, c := range counts {
			if c.Status == fleet.DeliveryFailed {
				v.Failed = c.Number
			} else {
				v.Waiting, v.Oldest = c.Number, c.Oldest
			}
		}
		return err
	})
}

// withoutPath returns the URL with "/..." in place of its path and query. A URL without them stays as it is.
func withoutPath(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		return url
	}
	return scheme + "://" + rest[:end] + "/..."
}

// WebhookStats returns figures of the webhooks of all owners.
func (s *Service) WebhookStats(ctx context.Context) (fleet.WebhookStats, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (stats fleet.WebhookStats, err error) {
		all, err := fleet.ReadResources[fleet.Webhook](tx, fleet.ResourceFilter{Kind: fleet.WebhookKind})
		if err != nil || len(all) == 0 {
			return stats, err
		}
		enabled := map[string]bool{} // by uid
		for _, w := range all {
			switch {
			case w.DisabledReason != "":
				stats.Disabled++
				continue
			case w.FailingSince.IsZero():
				stats.Active++
			default:
				stats.Failing++
			}
			enabled[w.UID] = true
		}
		counts, err := tx.CountDeliveries("")
		for _, c := range counts {
			if enabled[c.WebhookUID] && c.Status == fleet.DeliveryWaiting && (stats.Oldest.IsZero() || c.Oldest.Before(stats.Oldest)) {
				stats.Oldest = c.Oldest
			}
		}
		return stats, err
	})
}

// checkWebhook returns INVALID_ARGUMENT if a value of the webhook is not valid, and UNIMPLEMENTED if this server sends no webhooks.
func (s *Service) checkWebhook(w *fleet.Webhook) error {
	if err := w.Validate(); err != nil {
		return err
	}
	if s.cfg.Webhooks.Sender == nil {
		return fleet.Errorf(fleet.ReasonUnimplemented, "this server does not send webhooks")
	}
	return s.cfg.Webhooks.Sender.Check(w.URL)
}

func (s *Service) allWebhooks(ctx context.Context) ([]*fleet.Webhook, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) ([]*fleet.Webhook, error) {
		return fleet.ReadResources[fleet.Webhook](tx, fleet.ResourceFilter{Kind: fleet.WebhookKind})
	})
}

// webhookSecret returns the secret of the webhook with the uid. All secrets of webhooks are derived from one secret of the
// fleet, which the store has in another table. So a leaked copy of the table with the webhooks reveals none of them.
func (s *Service) webhookSecret(ctx context.Context, uid, salt string) (string, error) {
	root := s.webhookRoot.Load()
	if root == nil {
		random := make([]byte, sha256.Size)
		_, _ = rand.Read(random) // never fails
		stored, err := s.store.EnsureSecret(ctx, "webhooks", random)
		if err != nil {
			return "", err
		}
		root = &stored
		s.webhookRoot.Store(root)
	}
	mac := hmac.New(sha256.New, *root)
	mac.Write([]byte(uid + "/" + salt))
	return WebhookSecretPrefix + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}
