package service

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/queue"
)

// QueueItem is a pending task and why it waits.
type QueueItem struct {
	*fleet.QueuedTask
	Position int          // in the whole queue, from 1
	Waits    []fleet.Wait // why it waits, current reasons first; empty if it can start now
	Access   fleet.Access // what the caller may do with it; only set by ListQueue
}

// ListQueueRequest selects pending tasks.
type ListQueueRequest struct {
	Agent    string // empty: of all agents
	Selector string // of labels
	fleet.PageRequest
}

// QueueList is a page of the queue, the next task first.
type QueueList struct {
	Items []QueueItem
	Total int    // number of matching tasks
	Next  string // cursor of the next page; "" on the last page
}

// ListQueue returns a page of the matching pending tasks that the caller may see, in the order in which they start, and why each of
// them waits.
func (s *Service) ListQueue(ctx context.Context, r ListQueueRequest) (*QueueList, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	selector, err := fleet.ParseSelector("selector", r.Selector)
	if err != nil {
		return nil, err
	}
	uid := ""
	if r.Agent != "" {
		v, _, err := s.agent(ctx, r.Agent, fleet.AccessView)
		if err != nil {
			return nil, err
		}
		uid = v.UID
	}
	all, err := s.queueItems(ctx, p, queue.Texts)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(i QueueItem) bool { return uid != "" && i.AgentUID != uid || !selector.Matches(i.Labels) })
	l := &QueueList{Total: len(all)}
	l.Items, l.Next, err = fleet.Paginate(all, r.PageRequest, defaultQueueItems)
	return l, err
}

// defaultQueueItems is how many items ListQueue returns by default.
const defaultQueueItems = 100

// queueItems returns the pending tasks that p may see, the next one first. detail says whether Waits are set, and have texts.
func (s *Service) queueItems(ctx context.Context, p fleet.Principal, detail queue.Detail) ([]QueueItem, error) {
	d, err := s.queueDecision(ctx, detail, nil)
	if err != nil {
		return nil, err
	}
	items := []QueueItem{}
	for i, q := range d.Order {
		if access := s.pendingAccess(p, q); access != fleet.AccessNone {
			items = append(items, QueueItem{QueuedTask: q, Position: i + 1, Waits: d.Waits[q.ID], Access: p.CapByScope(access)})
		}
	}
	return items, nil
}

// queueItem returns the item of the task, without Access; nil if the task is no longer pending.
func (s *Service) queueItem(ctx context.Context, t *fleet.Task) (*QueueItem, error) {
	d, err := s.queueDecision(ctx, queue.Texts, nil)
	if err != nil {
		return nil, err
	}
	for i, q := range d.Order {
		if q.ID == t.ID {
			return &QueueItem{QueuedTask: q, Position: i + 1, Waits: d.Waits[q.ID]}, nil
		}
	}
	return nil, nil //nolint:nilnil // it has started meanwhile
}

// QueueSummary counts the pending tasks that a caller may see, by the reasons why they wait.
type QueueSummary struct {
	Pending     int
	Reasons     map[fleet.WaitReason]int // number of pending tasks by their first reason; tasks that can start now have none
	Oldest      time.Time                // when the oldest pending task was queued; zero if none is
	Paused      *fleet.Pause             // nil if the fleet is not paused
	MaxOvertake time.Duration            // a task that has waited longer starts before new tasks of any priority
}

// ShowQueue returns a summary of the pending tasks that the caller may see.
func (s *Service) ShowQueue(ctx context.Context) (*QueueSummary, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	items, err := s.queueItems(ctx, p, queue.Reasons)
	if err != nil {
		return nil, err
	}
	sum := &QueueSummary{Pending: len(items), Reasons: map[fleet.WaitReason]int{}, MaxOvertake: 2 * fleet.MaxPriority * s.cfg.AgeStep, Paused: s.queue.Pause()}
	for _, i := range items {
		if len(i.Waits) > 0 {
			sum.Reasons[i.Waits[0].Reason]++
		}
		if sum.Oldest.IsZero() || i.CreatedAt.Before(sum.Oldest) {
			sum.Oldest = i.CreatedAt
		}
	}
	return sum, nil
}

// QueueStats returns figures for metrics: of the whole queue, the budgets and the credentials.
func (s *Service) QueueStats(ctx context.Context) (stats fleet.QueueStats, err error) {
	d, err := s.queueDecision(ctx, queue.Reasons, nil)
	if err != nil {
		return stats, err
	}
	budgets, err := s.budgetStats(ctx)
	if err != nil {
		return stats, err
	}
	stats = fleet.QueueStats{Budgets: budgets, Credentials: s.credentialStats(), Tasks: map[fleet.WaitReason]int{}, Oldest: map[fleet.WaitReason]time.Time{}, Paused: s.queue.Pause() != nil}
	for _, q := range d.Order {
		if waits := d.Waits[q.ID]; len(waits) > 0 {
			reason := waits[0].Reason
			stats.Tasks[reason]++
			if old, ok := stats.Oldest[reason]; !ok || q.CreatedAt.Before(old) {
				stats.Oldest[reason] = q.CreatedAt
			}
		}
	}
	return stats, nil
}
