package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// reserve reserves what the task of the agent may cost in all budgets that apply to it, and returns BUDGET_EXCEEDED if one of them
// does not have it. Everything that starts a task calls it, in the transaction that makes the task running, before the task is
// written.
func (s *Service) reserve(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error {
	if err := usable(tx, a, s.now()); err != nil {
		return err
	}
	rooms, want, obstacles, err := s.obstacles(tx, a, t)
	switch {
	case err != nil:
		return err
	case len(obstacles) > 0:
		return budgetExceeded(obstacles[0], s.now())
	}
	return state.ReserveIn(tx, rooms, t, want, s.now())
}

// affordable returns BUDGET_EXCEEDED if the task of the agent can never start because of a budget.
func (s *Service) affordable(tx fleet.ReadTx, a *fleet.Agent, t *fleet.Task) error {
	_, _, obstacles, err := s.obstacles(tx, a, t)
	if i := slices.IndexFunc(obstacles, func(o state.Obstacle) bool { return o.Never }); err == nil && i >= 0 {
		return budgetExceeded(obstacles[i], s.now())
	}
	return err
}

// obstacles returns the budgets of the task, what they must reserve for it, and why they cannot.
func (s *Service) obstacles(tx fleet.ReadTx, a *fleet.Agent, t *fleet.Task) (rooms []state.BudgetRoom, want fleet.Reservation, all []state.Obstacle, err error) {
	budgets, err := fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind})
	if err != nil {
		return nil, want, nil, err
	}
	if budgets = state.BudgetsOf(budgets, a, t); len(budgets) == 0 {
		return nil, want, nil, nil
	}
	estimate, err := s.estimate(tx, a)
	if err != nil {
		return nil, want, nil, err
	}
	e := estimate(t)
	if rooms, err = state.Rooms(tx, budgets, s.now()); err != nil {
		return nil, want, nil, err
	}
	want = state.Wanted(budgets, t, e)
	return rooms, want, state.Obstacles(rooms, t, want, e), nil
}

// budgetExceeded returns the error for the obstacle.
func budgetExceeded(o state.Obstacle, now time.Time) error {
	e := fleet.Errorf(fleet.ReasonBudgetExceeded, "%s", o.Text).With("budget", o.Budget.Name).
		Next("{show_budget} shows what the budget was spent on")
	if o.Budget.Limit > 0 {
		e = e.With("left_usd", fmt.Sprint(max(o.Left.Micros, 0).USD()))
	}
	if o.Budget.Tokens > 0 {
		e = e.With("left_tokens", fmt.Sprint(max(o.Left.Tokens, 0)))
	}
	if o.Until.IsZero() {
		return e
	}
	return e.With("window_ends", o.Until.UTC().Format(time.RFC3339)).Next("{queue_task} queues a task that waits until then").After(o.Until.Sub(now))
}

// noteRefusal adds an entry to the ledger of the budget that has refused a call. It only logs a failure.
func (s *Service) noteRefusal(ctx context.Context, refused error) {
	e, ok := errors.AsType[*fleet.Error](refused)
	if !ok || e.Reason != fleet.ReasonBudgetExceeded {
		return
	}
	name := e.Metadata["budget"]
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, name)
		if err != nil || b == nil {
			return err
		}
		begin, _ := b.WindowAt(s.now())
		return tx.Insert(&fleet.LedgerEntry{Budget: name, Begin: begin, Kind: fleet.LedgerRefuse, At: s.now(), Text: fleet.PublicMessage(refused)})
	})
	if err != nil {
		s.log.WarnContext(ctx, "a refusal is not in the ledger", slog.String("budget", name), slog.Any("error", err))
	}
}

// lastTasks is how many of the newest tasks that have ended say what a new one may cost.
const lastTasks = 50

// estimate returns what tasks of the agent may use: nine of ten tasks in its project with its role have used at most that.
func (s *Service) estimate(tx fleet.ReadTx, a *fleet.Agent) (func(*fleet.Task) state.Estimate, error) {
	f := fleet.TaskFilter{Project: a.Project, Role: a.Role}
	if a.Project == "" {
		f.Toolset = &a.Toolset
	}
	found, err := tx.FindTasks(f, fleet.TaskWindow{Limit: 2 * lastTasks})
	if err != nil {
		return nil, err
	}
	ended := slices.DeleteFunc(found.Tasks, func(t *fleet.Task) bool { return t.Active() || t.Spent.Basis == "" })
	ended = ended[:min(len(ended), lastTasks)]
	var micros []fleet.Micros
	var tokens []int64
	for _, t := range ended {
		used := t.Used()
		micros, tokens = append(micros, used.Micros), append(tokens, used.Tokens)
	}
	most := fleet.Amount{Micros: mostOf(micros), Tokens: mostOf(tokens)}
	modelled := s.modelled(a)
	return func(t *fleet.Task) state.Estimate {
		e := state.Estimate{Amount: most}
		if !modelled {
			e.Unpriced = fmt.Sprintf("the program of agent %q does not say what it costs", a.Name)
		} else if len(ended) > 0 {
			e.Unpriced = s.unpriced(ended[0], t.Options.Model)
		}
		return e
	}, nil
}

// unpriced returns why Fleet cannot know what a task costs that is like the last one, but for its model if one is given.
func (s *Service) unpriced(last *fleet.Task, model string) string {
	if last.Spent.Basis != fleet.CostUnknown {
		return ""
	}
	models := []string{model}
	if model == "" {
		models = nil
		for _, m := range last.Spent.Models {
			if m.CostUSD == 0 {
				models = append(models, m.Model)
			}
		}
	}
	for _, m := range models {
		if _, known := s.cfg.Price(m); !known {
			return fmt.Sprintf("the price of the model %q is not known", m)
		}
	}
	return ""
}

// modelled reports whether the agent's program has a model that Fleet knows of. Such programs report what they use.
func (s *Service) modelled(a *fleet.Agent) bool {
	return fleet.CheckOptions(s.places.Of(a).Place, *a, fleet.TaskOptions{Model: "auto"}) == nil
}

// mostOf returns the 90th percentile.
func mostOf[T fleet.Micros | int64](all []T) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(9*len(all)+9)/10-1]
}
