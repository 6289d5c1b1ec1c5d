package sqlite

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const usageSums = `count(*), total(status = 'completed'), total(status = 'failed'), total(status = 'stopped'), total(cost_usd),
	total(input_tokens), total(output_tokens), total(tool_calls), total(ended_at - started_at) FROM tasks WHERE `

// usageKeys has the columns with the key and its owner, for each way to sum up usage.
var usageKeys = map[fleet.UsageKey]string{
	fleet.UsageByAgent:   `agent_name, owner`,
	fleet.UsageByProject: `project, ''`,
	fleet.UsageByOwner:   `owner, ''`,
	fleet.UsageByDay:     `strftime('%Y-%m-%d', created_at / 1000000, 'unixepoch'), ''`,
}

func (t *readTx) Usage(f fleet.TaskFilter, by fleet.UsageKey, limit int) ([]fleet.UsageRow, fleet.UsageRow, error) {
	columns, ok := usageKeys[by]
	if !ok {
		return nil, fleet.UsageRow{}, fmt.Errorf("usage by %q is unknown", by)
	}
	q, err := t.textQuery(f)
	if err != nil {
		return nil, fleet.UsageRow{}, err
	}
	if err := q.load(); err != nil {
		return nil, fleet.UsageRow{}, err
	}
	c := q.conditions()
	if q.match != "" && !q.rare {
		c.add(`n IN `+textRows, q.match)
		q.addText(c)
	}
	total, err := first(t, scanUsage, `SELECT '', '', `+usageSums+c.where+`true`, c.args...)
	if err != nil || limit <= 0 {
		return nil, total, err
	}
	rows, err := all(t, scanUsage, `SELECT `+columns+`, `+usageSums+c.where+`true GROUP BY 1, 2 ORDER BY 7 DESC, 3 DESC, 1, 2 LIMIT ?`, append(c.args, limit)...)
	return rows, total, err
}

func scanUsage(row scanner) (u fleet.UsageRow, err error) {
	var completed, failed, stopped, in, out, calls, took float64 // total() is never null, and never an integer
	err = row.Scan(&u.Key, &u.Owner, &u.Tasks, &completed, &failed, &stopped, &u.CostUSD, &in, &out, &calls, &took)
	u.Completed, u.Failed, u.Stopped = int(completed), int(failed), int(stopped)
	u.InputTokens, u.OutputTokens, u.ToolCalls = int64(in), int64(out), int64(calls)
	u.Took = time.Duration(took) * time.Microsecond
	return u, err
}
