package record

import "fleet/internal/fleet"

// FindTasks returns the tasks of the window and the total of all matching tasks. readRows returns the matching tasks from the
// beginning of the window on, at most limit. count returns how many tasks match, at most limit; more means that count did not
// examine all tasks. FindTasks calls count only if w.Count is positive and the total does not follow from the tasks of the window.
func FindTasks(w fleet.TaskWindow, readRows func(limit int) ([]*fleet.Task, error), count func(limit int) (n int, more bool, err error)) (found fleet.FoundTasks, err error) {
	limit := max(0, w.Limit)
	found.Tasks, err = readRows(limit + 1) // one more than needed, to see whether the window is the last one
	if err != nil {
		return fleet.FoundTasks{}, err
	}
	if found.AtEnd = len(found.Tasks) <= limit; !found.AtEnd {
		found.Tasks = found.Tasks[:limit]
	}
	if found.AtEnd && (len(found.Tasks) > 0 || w.Offset <= 0) {
		found.Total = max(0, w.Offset) + len(found.Tasks)
		return found, nil
	}
	if w.Count <= 0 {
		return found, nil
	}
	n, more, err := count(w.Count + 1)
	if more && !found.AtEnd { // count stopped before the end of the window, so the total is at least that
		n = max(n, max(0, w.Offset)+len(found.Tasks))
	}
	found.Total, found.More = min(n, w.Count), more || n > w.Count
	return found, err
}
