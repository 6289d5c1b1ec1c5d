package sqlite

import (
	"fmt"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// usageKeys maps each key to the SQL for two columns: the key and the owner. The owner is empty, except for
// fleet.UsageByAgent.
var usageKeys = map[fleet.UsageKey]string{
	fleet.UsageByAgent:   `agent_name, owner`,
	fleet.UsageByProject: `project, ''`,
	fleet.UsageByOwner:   `owner, ''`,
	fleet.UsageByDay:     `strftime('%Y-%m-%d', day * 86400, 'unixepoch'), ''`,
}

const (
	usageNumbers = `tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took`
	// usageOfDays and usageOfTasks follow the key and the owner in the query of a part: the sign, the numbers and the table.
	usageOfDays  = `, 1, ` + usageNumbers + ` FROM usage_days WHERE `
	usageOfTasks = `, ?, ` + usageNumbers + ` FROM task_usage WHERE `
)

// usageQuery is a format string for the query. Its argument is the parts. The first row of the result is the sum of all keys.
// The other rows are the sums for each key that has tasks, the highest cost first.
var usageQuery = `WITH parts (key, owner, sign, ` + usageNumbers + `) AS (%s), sums (key, owner, ` + usageNumbers + `) AS MATERIALIZED (
		SELECT key, owner, ` + sumColumns(`sign * `) + ` FROM parts GROUP BY 1, 2 HAVING total(sign * tasks) > 0
	) SELECT 1 AS whole, '' AS key, '' AS owner, ` + sumColumns(``) + ` FROM sums
	UNION ALL SELECT 0, * FROM sums ORDER BY 1 DESC, 8 DESC, 4 DESC, 2, 3 LIMIT ?`

// sumColumns returns SQL that sums each of usageNumbers, multiplied by the factor, which is empty or ends with " * ".
func sumColumns(factor string) string {
	return `total(` + factor + strings.ReplaceAll(usageNumbers, `, `, `), total(`+factor) + `)`
}

func (t *baseTx) Usage(f fleet.TaskFilter, by fleet.UsageKey, limit int) ([]fleet.UsageRow, fleet.UsageRow, error) {
	columns, ok := usageKeys[by]
	if !ok {
		return nil, fleet.UsageRow{}, fmt.Errorf("sum usage by %q: the key is unknown", by)
	}
	var parts []string
	var args []any
	days, tasks := record.UsageParts(f, by)
	for _, d := range days {
		c := &taskQuery{}
		c.add(`day >= ?`, d.First)
		c.add(`day < ?`, d.End)
		if d.Owner != "" {
			c.add(`owner = ?`, d.Owner)
		}
		if d.Project != "" {
			c.add(`project = ?`, d.Project)
		}
		parts, args = append(parts, `SELECT `+columns+usageOfDays+c.where+`true`), append(args, c.args...)
	}
	for _, part := range tasks {
		c := usageConditions(part)
		parts, args = append(parts, `SELECT `+columns+usageOfTasks+c.where+`true`), append(append(args, part.Sign), c.args...)
	}
	rows, err := record.QueryAll(t, record.ScanUsage, fmt.Sprintf(usageQuery, strings.Join(parts, ` UNION ALL `)), append(args, max(0, limit)+1)...)
	if err != nil {
		return nil, fleet.UsageRow{}, err
	}
	return rows[1:], rows[0], nil
}

// usageConditions returns the conditions that select the tasks of the part.
func usageConditions(part record.UsageTasks) (c *taskQuery) {
	if part.Status == record.ActiveCondition || len(part.Agents) > 0 { // these conditions select only a few tasks
		c = taskConditions(part.Filter, true)
		c.where = strings.ReplaceAll(c.where, `created_at`, `+created_at`)
	} else {
		text, indexed := part.Filter.Text, isIndexed(part.Filter.Text)
		c = taskConditions(part.Filter, indexed)
		switch {
		case indexed:
			c.add(`n IN `+textRows, quotePhrase(text))
		case text != "":
			c.add(containsText, text, text)
		}
	}
	if part.Status != "" {
		c.add(part.Status)
	}
	if len(part.Agents) > 0 {
		c.add(`agent_uid `+inList, jsonList(part.Agents))
	}
	if part.ExceptOwner != "" {
		c.add(`owner <> ?`, part.ExceptOwner)
	}
	return c
}
