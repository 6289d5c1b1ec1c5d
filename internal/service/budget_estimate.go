package service

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"fleet/internal/fleet"
)

// agentKind identifies agents whose tasks cost about the same.
type agentKind struct {
	fleet.ProjectRole
	toolset fleet.Toolset
}

func kindOf(a *fleet.Agent) agentKind {
	return agentKind{fleet.ProjectRole{Place: a.Place, Project: a.Project, Role: a.Role}, a.Toolset}
}

// estimates caches the estimate for each kind of agent. An entry is removed when another task of its kind has ended.
type estimates struct {
	mu     sync.Mutex // held during view, so that an older transaction does not store an entry again that a newer one has removed
	byKind map[agentKind]kindEstimate
}

// view calls fn in a transaction, with a function that returns the estimate for an agent.
func (e *estimates) view(ctx context.Context, s *Service, fn func(tx fleet.ReadTx, estimate func(*fleet.Agent) (kindEstimate, error)) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	uids, all := s.queue.TakeAgentsWithEndedTasks()
	if all || e.byKind == nil {
		e.byKind = map[agentKind]kindEstimate{}
	}
	err := s.store.View(ctx, func(tx fleet.ReadTx) error {
		for _, uid := range uids {
			if len(e.byKind) == 0 {
				break
			}
			a, err := tx.Agent(uid)
			if err != nil {
				return err
			}
			if a != nil {
				delete(e.byKind, kindOf(a))
			}
		}
		return fn(tx, func(a *fleet.Agent) (kindEstimate, error) {
			estimate, ok := e.byKind[kindOf(a)]
			if ok {
				return estimate, nil
			}
			estimate, err := s.estimate(tx, a)
			if err == nil {
				e.byKind[kindOf(a)] = estimate
			}
			return estimate, err
		})
	})
	if err != nil {
		clear(e.byKind) // some of its entries may be outdated
	}
	return err
}

// maxSampledTasks limits how many of the newest ended tasks an estimate is based on.
const maxSampledTasks = 50

// kindEstimate estimates, from earlier tasks, how much a task of one kind of agent uses at most.
type kindEstimate struct {
	fleet.Amount
	unpricedReason func(*fleet.Task) string // why Fleet cannot know what the task costs; empty if it can
}

// estimate returns how much a task of the agent probably uses at most: nine of ten earlier tasks in its project with its role have used
// no more.
func (s *Service) estimate(tx fleet.ReadTx, a *fleet.Agent) (kindEstimate, error) {
	f := fleet.TaskFilter{Project: a.Project, Role: a.Role, Ended: true}
	if a.Project == "" {
		f.Toolset = &a.Toolset
	}
	found, err := tx.FindTasks(f, fleet.TaskWindow{Limit: 2 * maxSampledTasks})
	if err != nil {
		return kindEstimate{}, err
	}
	ended := slices.DeleteFunc(found.Tasks, func(t *fleet.Task) bool { return t.Spending.Basis == "" })
	ended = ended[:min(len(ended), maxSampledTasks)]
	var micros []fleet.Micros
	var tokens []int64
	for _, t := range ended {
		used := t.Used()
		micros, tokens = append(micros, used.Micros), append(tokens, used.Tokens)
	}
	return kindEstimate{
		Amount: fleet.Amount{Micros: percentile90(micros), Tokens: percentile90(tokens)},
		unpricedReason: func(t *fleet.Task) string {
			switch {
			case !s.reportsModel(a) && t.AgentName == "": // it waits for an agent
				return "the program of the task does not say what it costs"
			case !s.reportsModel(a):
				return fmt.Sprintf("the program of agent %q does not say what it costs", t.AgentName)
			case len(ended) > 0:
				return s.unpricedReason(ended[0], t.Options.Model)
			}
			return ""
		},
	}, nil
}

// unpricedReason returns why Fleet cannot know what a task like the last one costs; empty if it can. A model, if given, replaces that of
// the last task.
func (s *Service) unpricedReason(last *fleet.Task, model string) string {
	if last.Spending.Basis != fleet.CostUnknown {
		return ""
	}
	models := []string{model}
	if model == "" {
		models = nil
		for _, m := range last.Spending.Models {
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

// reportsModel reports whether callers can choose the model of the agent's program. Such programs report how much they use of which
// model.
func (s *Service) reportsModel(a *fleet.Agent) bool {
	return fleet.CheckOptions(s.places.Of(a).Place, *a, fleet.TaskOptions{Model: "auto"}) == nil
}

// percentile90 returns the 90th percentile, or 0 if there are no values. It sorts the values.
func percentile90[T fleet.Micros | int64](all []T) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(9*len(all)+9)/10-1]
}
