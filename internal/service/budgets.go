package service

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// BudgetBalance is a budget with the amount that it has left.
type BudgetBalance = state.BudgetBalance

// SetBudget adds the budget, or replaces the one with its name. A replaced budget keeps its ledger. Package admission lets only
// admins call SetBudget.
func (s *Service) SetBudget(ctx context.Context, b fleet.Budget, requestID string) (*BudgetBalance, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	_, _, err := s.Once(ctx, Call{Method: "SetBudget", RequestID: requestID, Body: b}, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		all, err := fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind})
		if err != nil {
			return CallResult{}, err
		}
		b.UpdatedBy, b.CreatedAt, b.UpdatedAt = p.Name, s.now(), s.now()
		exists := false
		for _, old := range all {
			if old.Name == b.Name {
				exists, b.CreatedAt = true, old.CreatedAt
			}
		}
		if !exists && len(all) >= fleet.MaxBudgets {
			return CallResult{}, fleet.Errorf(fleet.ReasonLimitReached, "there are %d budgets, which is the limit", len(all)).Next("{delete_budget} deletes one")
		}
		if err := fleet.PutResource(tx, fleet.BudgetKind, b.Name, b); err != nil {
			return CallResult{}, err
		}
		return CallResult{}, tx.Append(s.newFleetEvent(fmt.Sprintf("the budget %s was set by %s", b.Name, p.Name)))
	})
	if err != nil {
		return nil, err
	}
	return s.budgetBalance(ctx, b.Name)
}

// DeleteBudget deletes the budget. Its ledger remains. The error is BUDGET_NOT_FOUND if the budget does not exist. Package admission
// lets only admins call DeleteBudget.
func (s *Service) DeleteBudget(ctx context.Context, name, requestID string) error {
	if name == "" {
		return errNoBudgetName()
	}
	_, _, err := s.Once(ctx, Call{Method: "DeleteBudget", RequestID: requestID, Body: name}, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		if _, err := readBudget(tx, name); err != nil {
			return CallResult{}, err
		}
		if err := tx.Delete(&fleet.Resource{Kind: fleet.BudgetKind, Name: name}); err != nil {
			return CallResult{}, err
		}
		return CallResult{}, tx.Append(s.newFleetEvent(fmt.Sprintf("the budget %s was deleted", name)))
	})
	return err
}

func errNoBudgetName() error {
	return fleet.InvalidField("name", "name is required: name a budget").Next("{list_budgets} lists them")
}

// readBudget returns the budget with the name, or BUDGET_NOT_FOUND.
func readBudget(tx fleet.ReadTx, name string) (*fleet.Budget, error) {
	b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, name)
	if err == nil && b == nil {
		err = errBudgetNotFound(name)
	}
	return b, err
}

func errBudgetNotFound(name string) error {
	return fleet.Errorf(fleet.ReasonBudgetNotFound, "there is no budget %q", fleet.Shorten(name, 80)).With("budget", fleet.Shorten(name, 80)).Next("{list_budgets} lists them")
}

// budgetBalance returns the balance of the budget with the name, or BUDGET_NOT_FOUND.
func (s *Service) budgetBalance(ctx context.Context, name string) (*BudgetBalance, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (*BudgetBalance, error) {
		b, err := readBudget(tx, name)
		if err != nil {
			return nil, err
		}
		balances, err := state.BudgetBalances(tx, []*fleet.Budget{b}, s.now())
		if err != nil {
			return nil, err
		}
		return &balances[0], nil
	})
}

// ListBudgets returns the budgets that concern the caller, sorted by name. An admin gets all budgets. Others get the budgets of the
// fleet, their own budgets, and the budgets that apply to an agent that they see.
func (s *Service) ListBudgets(ctx context.Context) ([]BudgetBalance, error) {
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, err
	}
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) ([]BudgetBalance, error) {
		all, err := fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind})
		if err != nil {
			return nil, err
		}
		return state.BudgetBalances(tx, s.visibleBudgets(p, all), s.now())
	})
}

// budgetStats returns the figures of all budgets, for QueueStats.
func (s *Service) budgetStats(ctx context.Context) ([]fleet.BudgetStats, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (all []fleet.BudgetStats, err error) {
		budgets, err := fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind})
		if err != nil {
			return nil, err
		}
		balances, err := state.BudgetBalances(tx, budgets, s.now())
		for _, b := range balances {
			all = append(all, fleet.BudgetStats{Name: b.Name, Limit: fleet.Amount{Micros: b.Limit, Tokens: b.TokenLimit}, Reserved: b.Total.Reserved, Spent: b.Total.Spent})
		}
		return all, err
	})
}

// visibleBudgets returns the budgets that the principal may see.
func (s *Service) visibleBudgets(p fleet.Principal, all []*fleet.Budget) (visible []*fleet.Budget) {
	for _, b := range all {
		if p.SeesAll() || b.Scope == fleet.BudgetFleet || b.Scope == fleet.BudgetOwner && b.Value == p.Name || s.appliesToVisibleAgent(p, b) {
			visible = append(visible, b)
		}
	}
	return visible
}

// appliesToVisibleAgent reports whether the budget applies to tasks of an agent that the principal sees.
func (s *Service) appliesToVisibleAgent(p fleet.Principal, b *fleet.Budget) bool {
	for _, v := range s.snap.All() {
		if p.Sees(&v.Agent) && b.Applies(&v.Agent, &fleet.Task{Labels: v.Labels}) {
			return true
		}
	}
	return false
}

// ShowBudgetRequest selects entries of the ledger of a budget, newest first.
type ShowBudgetRequest struct {
	Name   string
	All    bool  // also entries of earlier windows
	Before int64 // only entries before the one with this number; 0 for the newest
	Limit  *int  // at most so many entries, and never more than maxLedgerEntries; nil means defaultLedgerEntries
}

// BudgetLedger is a budget with entries of its ledger.
type BudgetLedger struct {
	BudgetBalance
	Entries []*fleet.LedgerEntry
	Next    int64 // value of Before for the next page; 0 on the last page
}

// The default and the maximum number of entries of a ledger in one response.
const (
	defaultLedgerEntries = 50
	maxLedgerEntries     = 500
)

// ShowBudget returns a budget that concerns the caller, with a page of its ledger. An entry has neither the id of its task nor a text if
// the caller may not see the task.
func (s *Service) ShowBudget(ctx context.Context, r ShowBudgetRequest) (*BudgetLedger, error) {
	p, err := fleet.PrincipalFrom(ctx)
	switch {
	case err != nil:
		return nil, err
	case r.Name == "":
		return nil, errNoBudgetName()
	case r.Limit != nil && *r.Limit < 1:
		return nil, fleet.InvalidField("limit", "limit is %d: give at least 1", *r.Limit)
	}
	limit := defaultLedgerEntries
	if r.Limit != nil {
		limit = min(*r.Limit, maxLedgerEntries)
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, err
	}
	return view(ctx, s.store, func(tx fleet.ReadTx) (*BudgetLedger, error) {
		b, err := readBudget(tx, r.Name)
		if err == nil && len(s.visibleBudgets(p, []*fleet.Budget{b})) == 0 {
			err = errBudgetNotFound(r.Name)
		}
		if err != nil {
			return nil, err
		}
		balances, err := state.BudgetBalances(tx, []*fleet.Budget{b}, s.now())
		if err != nil {
			return nil, err
		}
		f := fleet.LedgerFilter{Budget: b.Name, Begin: balances[0].Key.Begin, Before: r.Before, Limit: limit + 1}
		if r.All {
			f.Begin = time.Time{}
		}
		l, err := tx.Ledger(f)
		if err != nil {
			return nil, err
		}
		out := &BudgetLedger{BudgetBalance: balances[0], Entries: l.Entries}
		if len(l.Entries) > limit {
			out.Entries = l.Entries[:limit]
			out.Next = out.Entries[limit-1].Seq
		}
		return out, redactInvisibleTasks(tx, p, out.Entries)
	})
}

// redactInvisibleTasks removes the ids and the texts from entries of tasks that the principal may not see, and from entries without a
// task if the principal does not see everything.
func redactInvisibleTasks(tx fleet.ReadTx, p fleet.Principal, entries []*fleet.LedgerEntry) error {
	visible := map[string]bool{}
	for _, e := range entries {
		isVisible, known := visible[e.TaskID]
		if !known {
			var err error
			if isVisible, err = taskVisible(tx, p, e.TaskID); err != nil {
				return err
			}
			visible[e.TaskID] = isVisible
		}
		if !isVisible {
			e.TaskID, e.Text = "", ""
		}
	}
	return nil
}
