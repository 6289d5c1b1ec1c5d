package service

import (
	"context"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// maxTree is how many tasks of a tree are shown.
const maxTree = 2000

// TreeTask is a task of a tree of delegated tasks.
type TreeTask struct {
	*fleet.Task
	TreeCostUSD float64 // of the task and all tasks below it
}

// Limit returns what the task and all tasks below it may cost; 0 if nobody has said it.
func (t TreeTask) Limit() fleet.Micros {
	if usd := t.Options.MaxCostUSD; usd != nil {
		return fleet.MicrosOf(*usd)
	}
	return t.Delegation.Limit
}

// TaskTree returns the task and the tasks below it: each before those that it has delegated, oldest first. cut reports whether there are more
// tasks, older than these.
func (s *Service) TaskTree(ctx context.Context, id string) (tree []TreeTask, cut bool, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, false, err
	}
	if id == "" {
		return nil, false, errNoTaskID()
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		t, err := s.task(tx, p, id, fleet.AccessView)
		if err != nil {
			return err
		}
		tree, cut, err = readTree(tx, t)
		return err
	})
	return tree, cut, err
}

// readTree returns the tree below the task, which is the first. cut reports whether tasks are missing.
func readTree(tx fleet.ReadTx, t *fleet.Task) (tree []TreeTask, cut bool, err error) {
	if t.Delegation.Children == 0 {
		return []TreeTask{{t, t.CostUSD}}, false, nil
	}
	found, err := tx.FindTasks(fleet.TaskFilter{Root: t.Root()}, fleet.TaskWindow{Limit: maxTree})
	if err != nil {
		return nil, false, err
	}
	children := map[string][]*fleet.Task{}
	for _, c := range slices.Backward(found.Tasks) { // oldest first
		children[c.ParentID] = append(children[c.ParentID], c)
	}
	var add func(t *fleet.Task) float64
	add = func(t *fleet.Task) float64 {
		at, cost := len(tree), t.CostUSD
		tree = append(tree, TreeTask{Task: t})
		for _, c := range children[t.ID] {
			cost += add(c)
		}
		tree[at].TreeCostUSD = cost
		return cost
	}
	add(t)
	return tree, !found.Last, nil
}

// rootOf returns the id of the root that a request names, which p must see.
func (s *Service) rootOf(tx fleet.ReadTx, p fleet.Principal, id string) (string, error) {
	t, err := s.task(tx, p, strings.TrimSpace(id), fleet.AccessView)
	if err != nil {
		return "", err
	}
	return t.ID, nil
}
