package record

import "fleet/internal/fleet"

// FindTasks returns the tasks of the window. rows returns the first tasks of the window, and count how many match, both at most
// as many as they are asked for. more says that count did not look at all tasks. count is called only if the tasks that rows returns
// do not reach the end of the list.
func FindTasks(w fleet.TaskWindow, rows func(limit int) ([]*fleet.Task, error), count func(most int) (n int, more bool, err error)) (found fleet.FoundTasks, err error) {
	limit := max(0, w.Limit)
	found.Tasks, err = rows(limit + 1) // one more shows whether there are more
	if err != nil {
		return fleet.FoundTasks{}, err
	}
	if found.Last = len(found.Tasks) <= limit; !found.Last {
		found.Tasks = found.Tasks[:limit]
	}
	if found.Last && (len(found.Tasks) > 0 || w.Offset <= 0) {
		found.Total = max(0, w.Offset) + len(found.Tasks)
		return found, nil
	}
	if w.Count <= 0 {
		return found, nil
	}
	n, more, err := count(w.Count + 1)
	if more && !found.Last { // the window may be behind the end
		n = max(n, max(0, w.Offset)+len(found.Tasks))
	}
	found.Total, found.More = min(n, w.Count), more || n > w.Count
	return found, err
}
