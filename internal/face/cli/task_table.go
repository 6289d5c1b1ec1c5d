package cli

import (
	"strings"

	fleetv1 "fleet/gen/fleet/v1"
)

// shortID is how much of a task's id a table shows, in bytes.
const shortID = 8

// descriptionWidth is how much of a task's description a table shows, in columns, unless it is a wide table.
const descriptionWidth = 40

// showTasks prints tasks as a table, with an agent column if tasks of several agents are listed.
func (s *session) showTasks(tasks []*fleetv1.Task, agents bool, none string) {
	isWide := s.output == wide
	g := newGrid()
	g.column("ID", true)
	g.column("AGENT", agents || isWide)
	g.column("OWNER", isWide || severalOwners(tasks))
	g.column("STATUS", true)
	g.column("SOURCE", isWide)
	g.column("AGE", true)
	g.column("TOOK", true)
	g.column("DESCRIPTION", true)
	g.column("SUMMARY", true)
	for _, t := range tasks {
		id, description := t.GetId(), strings.Join(strings.Fields(t.GetDescription()), " ")
		if !isWide {
			description = truncate(description, descriptionWidth)
			if !s.quiet {
				id = id[:min(len(id), shortID)]
			}
		}
		g.row(id, t.GetAgentName(), t.GetOwner(), busyCell(t.GetStatus(), t), t.GetSource(),
			s.age(t.GetCreatedAt()), s.took(t.GetStartedAt(), t.GetCompletedAt()), description, outcome(summaryOf(t), t.GetReason()))
	}
	s.show(g, none)
}

// summaryOf returns the summary of an ended task. Before the end, the summary only repeats the description.
func summaryOf(t *fleetv1.Task) string {
	if !over(t.GetStatus()) {
		return ""
	}
	return t.GetSummary()
}

// outcome returns the summary of a task, and why it failed or was stopped.
func outcome(summary, reason string) string {
	if reason == "" {
		return summary
	}
	if summary == "" {
		return reason
	}
	return summary + " (" + reason + ")"
}
