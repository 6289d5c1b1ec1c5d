package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// maxTreeTasks is the maximum number of tasks of a tree that are read, the newest first.
const maxTreeTasks = 2000

// TreeTask is a task of a tree of delegated tasks.
type TreeTask struct {
	*fleet.Task
	TreeCostUSD float64 // cost of the task and all tasks below it
}

// Limit returns the maximum cost of the task and all tasks below it; 0 if there is no limit.
func (t TreeTask) Limit() fleet.Micros {
	if usd := t.Options.MaxCostUSD; usd != nil {
		return fleet.MicrosOf(*usd)
	}
	return t.Delegation.Limit
}

// TaskTree returns the task and the tasks below it: each before those that it has delegated, oldest first. cut reports whether the
// oldest tasks may be missing, because the whole tree has more than maxTreeTasks tasks.
func (s *Service) TaskTree(ctx context.Context, id string) (tree []TreeTask, cut bool, err error) {
	tree, err = viewTask(ctx, s, id, func(tx fleet.ReadTx, t *fleet.Task) (tree []TreeTask, err error) {
		tree, cut, err = readTree(tx, t)
		return tree, err
	})
	return tree, cut, err
}

// readTree does the work of TaskTree, for a task that the caller may see.
func readTree(tx fleet.ReadTx, t *fleet.Task) (tree []TreeTask, cut bool, err error) {
	if t.Delegation.Children == 0 {
		return []TreeTask{{t, t.CostUSD}}, false, nil
	}
	found, err := tx.FindTasks(fleet.TaskFilter{RootID: t.Root()}, fleet.TaskWindow{Limit: maxTreeTasks})
	if err != nil {
		return nil, false, err
	}
	children := map[string][]*fleet.Task{}
	for _, c := range slices.Backward(found.Tasks) { // oldest first
		children[c.ParentID] = append(children[c.ParentID], c)
	}
	var add func(t *fleet.Task) float64
	add = func(t *fleet.Task) float64 {
		i, cost := len(tree), t.CostUSD
		tree = append(tree, TreeTask{Task: t})
		for _, c := range children[t.ID] {
			cost += add(c)
		}
		tree[i].TreeCostUSD = cost
		return cost
	}
	add(t)
	return tree, !found.AtEnd, nil
}
