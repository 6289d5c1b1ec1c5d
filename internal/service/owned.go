package service

import (
	"context"

	"fleet/internal/fleet"
)

// ownedKind is what pools, schedules and webhooks have in common: each has an owner, and a name that is only used once for each owner.
type ownedKind[T any] struct {
	kind   fleet.ResourceKind
	owner  func(*T) (name, owner string)
	seen   func(*T, fleet.Principal) bool
	none   fleet.Reason
	lists  string                           // what to do to see them
	put    func(fleet.Tx, *T, string) error // writes it and an event with the text
	listed func(context.Context) ([]*T, error)
}

// pools says how pools are found and written.
func (s *Service) pools() ownedKind[fleet.Pool] {
	return ownedKind[fleet.Pool]{
		fleet.PoolKind, func(p *fleet.Pool) (string, string) { return p.Name, p.Owner }, (*fleet.Pool).Admits, fleet.ReasonPoolNotFound, "{list_pools} lists them", s.putPool, queued(s, s.queue.Pools),
	}
}

// schedules says how schedules are found and written.
func (s *Service) schedules() ownedKind[fleet.Schedule] {
	return ownedKind[fleet.Schedule]{
		fleet.ScheduleKind, func(d *fleet.Schedule) (string, string) { return d.Name, d.Owner }, (*fleet.Schedule).Seen, fleet.ReasonScheduleNotFound, "{list_schedules} lists them", s.putSchedule, queued(s, s.queue.Schedules),
	}
}

// webhooks says how webhooks are found and written.
func (s *Service) webhooks() ownedKind[fleet.Webhook] {
	return ownedKind[fleet.Webhook]{
		fleet.WebhookKind, func(w *fleet.Webhook) (string, string) { return w.Name, w.Owner }, (*fleet.Webhook).Seen, fleet.ReasonWebhookNotFound, "{list_webhooks} lists them", s.putWebhook, s.allWebhooks,
	}
}

// queued returns the function that lists what the queue has in memory.
func queued[T any](s *Service, get func() []*T) func(context.Context) ([]*T, error) {
	return func(ctx context.Context) ([]*T, error) {
		if err := s.queue.Refresh(ctx); err != nil {
			return nil, err
		}
		return get(), nil
	}
}

func (k ownedKind[T]) notFound(ref string) *fleet.Error {
	word := string(k.kind)
	return fleet.Errorf(k.none, "there is no %s %q", word, fleet.Shorten(ref, 80)).With(word, fleet.Shorten(ref, 80)).Next(k.lists)
}

// find returns the one that p names and sees: "web" for one of its own or, if it has none of this name, for that of somebody else;
// "web@alice" for alice's.
func (k ownedKind[T]) find(ctx context.Context, p fleet.Principal, ref string) (*T, error) {
	word := string(k.kind)
	if ref == "" {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "name", "name is required: name a %s", word).Next(k.lists)
	}
	all, err := k.listed(ctx)
	if err != nil {
		return nil, err
	}
	name, owner := fleet.ParseAgentRef(ref)
	var others []*T
	var owners []string
	for _, one := range all {
		switch its, of := k.owner(one); {
		case its != name || owner != "" && of != owner || !k.seen(one, p):
		case of == p.Name:
			return one, nil
		default:
			others, owners = append(others, one), append(owners, its+"@"+of)
		}
	}
	switch len(others) {
	case 0:
		return nil, k.notFound(ref)
	case 1:
		return others[0], nil
	}
	return nil, fleet.Invalid(k.none, word, "several %ss have the name %q: name one of %s", word, name, fleet.JoinNames(owners)).With(word, name)
}

// change changes the one with the key. do gets nil if it does not exist, and returns the text of the event, or "" if nothing changes.
// After a repeated call, change returns nil and the key of what the first call has changed.
func (k ownedKind[T]) change(ctx context.Context, s *Service, c Call, key string, do func(fleet.Tx, *T) (*T, string, error)) (changed *T, before string, err error) {
	made, repeated, err := s.Once(ctx, c, func(tx fleet.Tx) (CallResult, error) {
		made := CallResult{TaskID: key}
		old, err := fleet.ReadResource[T](tx, k.kind, key)
		if err != nil {
			return made, err
		}
		var text string
		if changed, text, err = do(tx, old); err != nil || text == "" {
			return made, err
		}
		return made, k.put(tx, changed, text)
	})
	if err != nil || repeated {
		return nil, made.TaskID, err
	}
	return changed, "", nil
}
