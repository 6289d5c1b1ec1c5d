package service

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// ownedKind has the rules that pools, schedules and webhooks share: each has an owner, and a name that is unique among those of its owner.
// V is the view that callers get.
type ownedKind[T, V any] struct {
	s         *Service
	kind      fleet.ResourceKind
	event     fleet.EventType
	notFound  fleet.Reason
	listHint  string // tells callers how to list the resources of the kind
	nameOwner func(*T) (name, owner string)
	updatedAt func(*T) *time.Time                 // the field with the time of the last change
	visible   func(*T, fleet.Principal) bool      // reports whether the principal may see it
	list      func(context.Context) ([]*T, error) // returns those of all owners, sorted by name
	view      func(context.Context, fleet.Principal, *T) (*V, error)
}

func (s *Service) pools() ownedKind[fleet.Pool, PoolView] {
	return ownedKind[fleet.Pool, PoolView]{
		s: s, kind: fleet.PoolKind, event: fleet.EventPoolChanged, notFound: fleet.ReasonPoolNotFound, listHint: "{list_pools} lists them",
		nameOwner: func(p *fleet.Pool) (string, string) { return p.Name, p.Owner }, updatedAt: func(p *fleet.Pool) *time.Time { return &p.UpdatedAt },
		visible: (*fleet.Pool).Admits, list: fromQueue(s, s.queue.Pools),
		view: func(ctx context.Context, _ fleet.Principal, p *fleet.Pool) (*PoolView, error) {
			return s.poolView(ctx, p)
		},
	}
}

func (s *Service) schedules() ownedKind[fleet.Schedule, ScheduleView] {
	return ownedKind[fleet.Schedule, ScheduleView]{
		s: s, kind: fleet.ScheduleKind, event: fleet.EventScheduleChanged, notFound: fleet.ReasonScheduleNotFound, listHint: "{list_schedules} lists them",
		nameOwner: func(d *fleet.Schedule) (string, string) { return d.Name, d.Owner }, updatedAt: func(d *fleet.Schedule) *time.Time { return &d.UpdatedAt },
		visible: (*fleet.Schedule).VisibleTo, list: fromQueue(s, s.queue.Schedules),
		view: func(_ context.Context, _ fleet.Principal, d *fleet.Schedule) (*ScheduleView, error) {
			return &ScheduleView{Schedule: *d, NextTick: s.nextTick(d)}, nil
		},
	}
}

func (s *Service) webhooks() ownedKind[fleet.Webhook, WebhookView] {
	return ownedKind[fleet.Webhook, WebhookView]{
		s: s, kind: fleet.WebhookKind, event: fleet.EventWebhookChanged, notFound: fleet.ReasonWebhookNotFound, listHint: "{list_webhooks} lists them",
		nameOwner: func(w *fleet.Webhook) (string, string) { return w.Name, w.Owner }, updatedAt: func(w *fleet.Webhook) *time.Time { return &w.UpdatedAt },
		visible: (*fleet.Webhook).VisibleTo, list: s.allWebhooks, view: s.webhookView,
	}
}

// ListOwnedRequest selects pools or schedules.
type ListOwnedRequest struct {
	Selector string // of their labels
	fleet.PageRequest
}

// fromQueue returns a function that lists the resources that the queue has in memory.
func fromQueue[T any](s *Service, get func() []*T) func(context.Context) ([]*T, error) {
	return func(ctx context.Context) ([]*T, error) {
		if err := s.queue.Refresh(ctx); err != nil {
			return nil, err
		}
		return get(), nil
	}
}

func (k ownedKind[T, V]) key(x *T) string {
	name, owner := k.nameOwner(x)
	return fleet.OwnedKey(name, owner)
}

func (k ownedKind[T, V]) errNotFound(ref string) *fleet.Error {
	word := string(k.kind)
	return fleet.Errorf(k.notFound, "there is no %s %q", word, fleet.Shorten(ref, 80)).With(word, fleet.Shorten(ref, 80)).Next(k.listHint)
}

// find returns the resource that ref names, among those that p can see. "web" names p's own resource, or another owner's if p has
// none with this name. "web@alice" names alice's. If several other owners have one, find fails and lists their references.
func (k ownedKind[T, V]) find(ctx context.Context, p fleet.Principal, ref string) (*T, error) {
	word := string(k.kind)
	if ref == "" {
		return nil, fleet.InvalidField("name", "name is required: name a %s", word).Next(k.listHint)
	}
	all, err := k.list(ctx)
	if err != nil {
		return nil, err
	}
	wantName, wantOwner := fleet.SplitOwnedRef(ref)
	var others []*T
	var refs []string
	for _, x := range all {
		switch name, owner := k.nameOwner(x); {
		case name != wantName || wantOwner != "" && owner != wantOwner || !k.visible(x, p):
		case owner == p.Name:
			return x, nil
		default:
			others, refs = append(others, x), append(refs, name+"@"+owner)
		}
	}
	switch len(others) {
	case 0:
		return nil, k.errNotFound(ref)
	case 1:
		return others[0], nil
	}
	return nil, fleet.Invalid(k.notFound, word, "several %ss have the name %q: name one of %s", word, wantName, fleet.JoinNames(refs)).With(word, wantName)
}

// show returns the view of the resource that the caller names.
func (k ownedKind[T, V]) show(ctx context.Context, ref string) (*V, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	x, err := k.find(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	return k.view(ctx, p, x)
}

// page returns a page of the matching resources that the caller sees, and their total number.
func (k ownedKind[T, V]) page(ctx context.Context, r fleet.PageRequest, size int, matches func(*T) bool) (views []*V, total int, next string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, 0, "", err
	}
	all, err := k.list(ctx)
	if err != nil {
		return nil, 0, "", err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(x *T) bool { return !k.visible(x, p) || !matches(x) })
	total = len(all)
	if all, next, err = fleet.Paginate(all, r, size); err != nil {
		return nil, 0, "", err
	}
	for _, x := range all {
		v, err := k.view(ctx, p, x)
		if err != nil {
			return nil, 0, "", err
		}
		views = append(views, v)
	}
	return views, total, next, nil
}

// change changes the resource with the key once per request id, and returns its view. do gets the stored resource, or nil if there is
// none. It returns the resource to store and the text of the event. If the text is "", nothing is stored.
func (k ownedKind[T, V]) change(ctx context.Context, c Call, key string, do func(fleet.Tx, *T) (*T, string, error)) (*V, error) {
	var changed *T
	var caller fleet.Principal
	result, repeated, err := k.s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		caller = p
		result := CallResult{ObjectID: key}
		old, err := k.read(tx, key)
		if err != nil {
			return result, err
		}
		var text string
		if changed, text, err = do(tx, old); err != nil || text == "" {
			return result, err
		}
		return result, k.put(tx, changed, text)
	})
	switch {
	case err != nil:
		return nil, err
	case repeated:
		return k.show(ctx, result.ObjectID)
	}
	return k.view(ctx, caller, changed)
}

// changeNamed works like change, for an existing resource that the caller names. do changes the resource in place, and returns the
// text of the event, or "" if nothing changes.
func (k ownedKind[T, V]) changeNamed(ctx context.Context, c Call, ref string, do func(fleet.Tx, fleet.Principal, *T) (string, error)) (*V, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	key := ""
	if found, err := k.find(ctx, p, ref); err != nil {
		c.Refusal = err
	} else {
		key = k.key(found)
	}
	return k.change(ctx, c, key, func(tx fleet.Tx, x *T) (*T, string, error) {
		if x == nil || !k.visible(x, p) {
			return nil, "", k.errNotFound(ref)
		}
		text, err := do(tx, p, x)
		return x, text, err
	})
}

// delete deletes the resource that the caller names, once per request id.
func (k ownedKind[T, V]) delete(ctx context.Context, c Call, ref string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	found, err := k.find(ctx, p, ref)
	c.Refusal = err
	_, _, err = k.s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		x, err := k.read(tx, k.key(found))
		if err == nil && (x == nil || !k.visible(x, p)) {
			err = k.errNotFound(ref)
		}
		if err != nil {
			return CallResult{}, err
		}
		return CallResult{ObjectID: k.key(x)}, k.remove(tx, x, "was deleted by "+p.Name)
	})
	return err
}

// read returns the resource with the key; nil if it does not exist.
func (k ownedKind[T, V]) read(tx fleet.ReadTx, key string) (*T, error) {
	return fleet.ReadResource[T](tx, k.kind, key)
}

// put sets the time of the last change of the resource, and writes the resource and an event with the text.
func (k ownedKind[T, V]) put(tx fleet.Tx, x *T, text string) error {
	*k.updatedAt(x) = k.s.now()
	if err := fleet.PutResource(tx, k.kind, k.key(x), x); err != nil {
		return err
	}
	return tx.Append(k.newEvent(x, text))
}

// remove deletes the resource, and writes an event with the text.
func (k ownedKind[T, V]) remove(tx fleet.Tx, x *T, text string) error {
	if err := tx.Delete(&fleet.Resource{Kind: k.kind, Name: k.key(x)}); err != nil {
		return err
	}
	return tx.Append(k.newEvent(x, text))
}

func (k ownedKind[T, V]) newEvent(x *T, text string) *fleet.Event {
	name, owner := k.nameOwner(x)
	return &fleet.Event{Time: k.s.now(), Type: k.event, Owner: owner, Text: "the " + string(k.kind) + " " + name + " " + text}
}
