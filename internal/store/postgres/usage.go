package postgres

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
	fleet.UsageByDay:     `to_char(date '1970-01-01' + day::integer, 'YYYY-MM-DD'), ''`,
}

const (
	usageNumbers = `tasks, completed, failed, stopped, cost, input_tokens, output_tokens, tool_calls, took`
	// usageColumns follows the key, the owner and the sign in the query of a part.
	usageColumns = `::integer, ` + usageNumbers + ` FROM `
)

// usageQuery is a format string for the query. Its arguments are the parts and the limit of rows. The first row of the result
// is the sum of all keys. The other rows are the sums for each key that has tasks, the highest cost first.
var usageQuery = `WITH parts (key, owner, sign, ` + usageNumbers + `) AS (%s), sums (key, owner, ` + usageNumbers + `) AS MATERIALIZED (
		SELECT key, owner, ` + sumColumns(`sign * `) + ` FROM parts GROUP BY 1, 2 HAVING sum(sign * tasks) > 0
	), rows (whole, key, owner, ` + usageNumbers + `) AS (
		SELECT 1, '', '', ` + sumColumns(``) + ` FROM sums UNION ALL SELECT 0, * FROM sums
	) SELECT * FROM rows ORDER BY whole DESC, cost DESC, tasks DESC, key COLLATE "C", owner COLLATE "C" LIMIT %s`

// sumColumns returns SQL that sums each of usageNumbers, multiplied by the factor, which is empty or ends with " * ".
func sumColumns(factor string) string {
	return `coalesce(sum(` + factor + strings.ReplaceAll(usageNumbers, `, `, `), 0)::float8, coalesce(sum(`+factor) + `), 0)::float8`
}

func (t *baseTx) Usage(f fleet.TaskFilter, by fleet.UsageKey, limit int) ([]fleet.UsageRow, fleet.UsageRow, error) {
	columns, ok := usageKeys[by]
	if !ok {
		return nil, fleet.UsageRow{}, fmt.Errorf("sum usage by %q: the key is unknown", by)
	}
	var parts []string
	c := &clause{}
	add := func(sign int, table string) {
		parts = append(parts, `SELECT `+columns+`, `+c.arg(sign)+usageColumns+table+` WHERE `+c.where+`true`)
		c.where = ""
	}
	days, tasks := record.UsageParts(f, by)
	for _, d := range days {
		for _, table := range []string{`usage_days`, `stored_changes`} {
			c.add(`day >= ?`, d.First)
			c.add(`day < ?`, d.End)
			if d.Owner != "" {
				c.add(`owner = ?`, d.Owner)
			}
			if d.Project != "" {
				c.add(`project = ?`, d.Project)
			}
			add(1, table)
		}
	}
	for _, part := range tasks {
		c.addTaskFilter(part.Filter)
		if part.Status != "" {
			c.where += part.Status + ` AND `
		}
		if len(part.Agents) > 0 {
			c.add(`agent_uid = ANY(?)`, part.Agents)
		}
		if part.ExceptOwner != "" {
			c.add(`owner <> ?`, part.ExceptOwner)
		}
		add(part.Sign, `task_usage`)
	}
	rows, err := queryAll(t, record.ScanUsage, fmt.Sprintf(usageQuery, strings.Join(parts, ` UNION ALL `), c.arg(max(0, limit)+1)), c.args...)
	if err != nil {
		return nil, fleet.UsageRow{}, err
	}
	return rows[1:], rows[0], nil
}
