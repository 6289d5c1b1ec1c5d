package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// MaxUsageRows is how many rows of usage are returned at most.
const MaxUsageRows = 1000

// defaultUsage is how far back usage is summed up by default.
const defaultUsage = 30 * 24 * time.Hour

// UsageRequest selects tasks of all toolsets, and says what to sum up by.
type UsageRequest struct {
	By             fleet.UsageKey // "" means by agent
	Agent, Project string         // only tasks of this agent, of this project
	Since          time.Time      // created then or later; zero means 30 days ago
	Until          time.Time      // created before; zero means no limit
}

// Usage is what tasks used.
type Usage struct {
	Rows  []fleet.UsageRow // days in order, others with the highest cost first
	Total fleet.UsageRow
	Since time.Time
}

// Usage sums up what the tasks that the caller may see used.
func (s *Service) Usage(ctx context.Context, r UsageRequest) (*Usage, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.By == "" {
		r.By = fleet.UsageByAgent
	}
	if r.Since.IsZero() {
		r.Since = s.now().Add(-defaultUsage)
	}
	if !r.Until.IsZero() && !r.Until.After(r.Since) {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "until", "until must be after since")
	}
	f, err := s.taskFilter(ctx, p, ListTasksRequest{Agent: r.Agent, Project: r.Project, Since: r.Since})
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
		return s.knownProject(ctx, tx, f)
	})
	if r.By == fleet.UsageByDay {
		slices.SortFunc(u.Rows, func(a, b fleet.UsageRow) int { return strings.Compare(a.Key, b.Key) })
	}
	return u, err
}
