package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// MaxUsageRows is the maximum number of rows of usage in one response.
const MaxUsageRows = 1000

// defaultUsagePeriod is the period over which usage is summed up by default.
const defaultUsagePeriod = 30 * 24 * time.Hour

// UsageRequest selects tasks of all toolsets, and says how to group their usage.
type UsageRequest struct {
	By             fleet.UsageKey // "" means by agent
	Agent, Project string         // only tasks of this agent, and only of this project; empty means any
	Selector       string         // only tasks whose labels match, see fleet.ParseSelector
	Since          time.Time      // only tasks created then or later; zero means 30 days ago
	Until          time.Time      // only tasks created before it; zero means no limit
}

// Usage is the usage of the selected tasks, by the key of the request.
type Usage struct {
	Rows  []fleet.UsageRow // days in order; agents, projects and owners by cost, highest first
	Total fleet.UsageRow
	Since time.Time // UsageRequest.Since, or its default
}

// Usage sums up the usage of the selected tasks that the caller may see.
func (s *Service) Usage(ctx context.Context, r UsageRequest) (*Usage, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.By == "" {
		r.By = fleet.UsageByAgent
	}
	if r.Since.IsZero() {
		r.Since = s.now().Add(-defaultUsagePeriod)
	}
	if !r.Until.IsZero() && !r.Until.After(r.Since) {
		return nil, fleet.InvalidField("until", "until must be after since")
	}
	f, projectErr, err := s.taskFilter(ctx, p, ListTasksRequest{Agent: r.Agent, Project: r.Project, Since: r.Since, Selector: r.Selector})
	if err != nil {
		return nil, err
	}
	f.Until = r.Until
	u := &Usage{Since: r.Since}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		u.Rows, u.Total, err = tx.Usage(f, r.By, MaxUsageRows)
		if err != nil || u.Total.Tasks > 0 || r.Project == "" {
			return err
		}
		return checkProject(tx, f, projectErr)
	})
	if r.By == fleet.UsageByDay {
		slices.SortFunc(u.Rows, func(a, b fleet.UsageRow) int { return strings.Compare(a.Key, b.Key) })
	}
	return u, err
}
