package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const usageSums = `count(*), count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
	count(*) FILTER (WHERE status = 'stopped'), coalesce(sum(cost_usd), 0), coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(output_tokens), 0)::bigint,
	coalesce(sum(tool_calls), 0)::bigint, coalesce(extract(epoch FROM sum(ended_at - started_at)), 0)::float8 FROM tasks WHERE `

// usageKeys has the columns of a key and its owner, by what usage is summed up by.
var usageKeys = map[fleet.UsageKey]string{
	fleet.UsageByAgent:   `agent_name, owner`,
	fleet.UsageByProject: `project, ''`,
	fleet.UsageByOwner:   `owner, ''`,
	fleet.UsageByDay:     `to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), ''`,
}

func (t *readTx) Usage(f fleet.TaskFilter, by fleet.UsageKey, limit int) ([]fleet.UsageRow, fleet.UsageRow, error) {
	columns, ok := usageKeys[by]
	if !ok {
		return nil, fleet.UsageRow{}, fmt.Errorf("usage by %q is unknown", by)
	}
	c := taskConditions(f)
	total, err := first(t, scanUsage, `SELECT '', '', `+usageSums+c.where+`true`, c.args...)
	if err != nil {
		return nil, fleet.UsageRow{}, err
	}
	query := `SELECT ` + columns + `, ` + usageSums + c.where + `true GROUP BY 1, 2 ORDER BY 7 DESC, 3 DESC, 1, 2 LIMIT ` + c.arg(limit)
	rows, err := all(t, scanUsage, query, c.args...)
	return rows, total, err
}

func scanUsage(row scanner) (u fleet.UsageRow, err error) {
	var took float64 // seconds
	err = row.Scan(&u.Key, &u.Owner, &u.Tasks, &u.Completed, &u.Failed, &u.Stopped, &u.CostUSD, &u.InputTokens, &u.OutputTokens, &u.ToolCalls, &took)
	u.Took = time.Duration(took * float64(time.Second)).Round(time.Microsecond)
	return u, err
}
