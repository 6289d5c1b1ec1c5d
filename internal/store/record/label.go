package record

import (
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

const putLabels = `UPDATE tasks SET labels = ?, revision = revision + 1 WHERE id = ? AND labels IS DISTINCT FROM ?`

// labelsArg returns the labels as JSON, or nil, which means NULL, if there are none.
func labelsArg(l fleet.Labels) any {
	if len(l) == 0 {
		return nil
	}
	text, _ := marshalText(l) // texts can always be encoded
	return text
}

func (t Tx) putLabels(taskID string, l fleet.Labels) error {
	t.DB.Lock(LockTask, taskID)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("write the labels of task %s: %w", taskID, err) },
		putLabels, labelsArg(l), taskID, labelsArg(l))
}

// SelectorConditions returns the selector as SQL conditions on the column labels. arg adds an argument of the query and returns its
// placeholder; in is Dialect.InList.
func SelectorConditions(s fleet.Selector, in string, arg func(any) string) (conditions []string) {
	if s.RequiresLabel() {
		conditions = append(conditions, `labels IS NOT NULL`) // the condition of the index of labelled rows
	}
	for _, r := range s {
		value := `labels ->> CAST(` + arg(r.Key) + ` AS text)`
		condition := value + ` IS NOT NULL`
		if r.Values != nil {
			condition = value + ` ` + strings.Replace(in, `?`, arg(TextList(r.Values)), 1)
		}
		if r.Not {
			condition = `(` + condition + `) IS NOT TRUE`
		}
		conditions = append(conditions, condition)
	}
	return conditions
}
