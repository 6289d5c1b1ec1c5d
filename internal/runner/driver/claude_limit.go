package driver

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// claudeLimit is the state of the limits of the subscription. The fields outside Windows are those of the window that limits it most.
type claudeLimit struct {
	Status      string  `json:"status"` // allowed, allowed_warning or rejected
	Window      string  `json:"rateLimitType"`
	ResetsAt    int64   `json:"resetsAt"` // in Unix seconds
	Utilization float64 `json:"utilization"`
	Overage     bool    `json:"isUsingOverage"` // the subscription pays for what exceeds its windows, so nothing is refused
	// Windows are all windows, by name, in newer versions.
	Windows map[string]struct {
		ResetsAt    int64   `json:"resetsAt"`
		Utilization float64 `json:"utilization"`
	} `json:"unifiedWindows"`
}

// reached reports whether requests are refused until the window ends.
func (l *claudeLimit) reached() bool { return l != nil && l.Status == "rejected" && !l.Overage }

// usage returns the state of the window that limits the subscription most.
func (l *claudeLimit) usage() fleet.UsageLimit {
	return fleet.UsageLimit{Window: oneLine(l.Window), Utilization: l.Utilization, Reached: l.reached(), ResetsAt: unixTime(l.ResetsAt)}
}

// unixTime returns the time that is given in Unix seconds, or a zero time if it is not positive.
func unixTime(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// limitSteps returns a step for a window that is nearly or completely used up, and a step for each other window whose state has
// changed since the last step.
func (p *claudeParser) limitSteps(l *claudeLimit) (steps []Piece) {
	if l == nil || l.Status == "" {
		return nil
	}
	limits := map[string]fleet.UsageLimit{}
	for name, w := range l.Windows {
		name = oneLine(name)
		limits[name] = fleet.UsageLimit{Window: name, Utilization: w.Utilization, ResetsAt: unixTime(w.ResetsAt)}
	}
	main := oneLine(l.Window)
	if l.Status != "allowed" || l.Window != "" && limits[main].Window == "" {
		limits[main] = l.usage()
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		s := &fleet.Step{Type: fleet.StepWindow, Limit: new(limits[name])}
		if name == main && l.Status != "allowed" {
			s.Type = fleet.StepLimit
		} else if old, known := p.windows[name]; known && old.ResetsAt.Equal(s.Limit.ResetsAt) && int(100*old.Utilization) == int(100*s.Limit.Utilization) {
			continue
		}
		p.windows[name] = *s.Limit
		steps = append(steps, stepPiece(limitText(*s.Limit), s))
	}
	return steps
}

func limitText(l fleet.UsageLimit) string {
	text := fmt.Sprintf("the limit of the subscription (%s) is %.0f%% used", l.Name(), 100*l.Utilization)
	if l.Reached {
		text = fmt.Sprintf("the limit of the subscription (%s) is used up", l.Name())
	}
	if !l.ResetsAt.IsZero() {
		text += "; it resets at " + l.ResetsAt.Format(time.RFC3339)
	}
	return text
}
