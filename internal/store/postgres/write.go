package postgres

import "fleet/internal/fleet"

// deleteFromInbox removes the events of a task that are not in the log yet. Otherwise they would move there after the task was
// deleted.
const deleteFromInbox = `DELETE FROM inbox WHERE task_id = ?`

// Insert adds the row, see fleet.Tx.
func (t *tx) Insert(r fleet.Row) error {
	if task, ok := r.(*fleet.Task); ok {
		return t.insertTask(task)
	}
	return t.Tx.Insert(r)
}

// Update writes the row, see fleet.Tx.
func (t *tx) Update(r fleet.Row) error {
	if task, ok := r.(*fleet.Task); ok {
		return t.updateTask(task)
	}
	return t.Tx.Update(r)
}

// Delete removes the row, see fleet.Tx.
func (t *tx) Delete(r fleet.Row) error {
	if task, ok := r.(*fleet.Task); ok {
		current, err := t.Task(task.ID)
		if err != nil {
			return err
		}
		return t.DeleteTask(task.ID, current, deleteFromInbox)
	}
	return t.Tx.Delete(r)
}
