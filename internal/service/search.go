package service

import (
	"context"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// SearchResult has what Search has found, at most the requested number of each kind.
type SearchResult struct {
	Agents    []*fleet.AgentView // by name
	Tasks     []*fleet.Task      // newest first
	Questions []*fleet.Question  // newest first
}

// MaxFound is the maximum number of items of each kind that Search returns. defaultFound is the default.
const (
	MaxFound     = 100
	defaultFound = 10
)

// maxWaitingQuestions is the maximum number of waiting questions that Search examines, the newest first.
const maxWaitingQuestions = 1000

// Search returns the agents, tasks and waiting questions that contain the text, ignoring case, and that the caller may see. It leaves
// out agents and tasks of toolsets other than ToolsetFleet. It returns at most limit of each kind; a nil limit means 10.
func (s *Service) Search(ctx context.Context, text string, limit *int) (*SearchResult, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	most, err := limitOr(limit, defaultFound, MaxFound)
	if err != nil {
		return nil, err
	}
	if fleet.IsBlank(text) {
		return nil, fleet.InvalidField("text", "text is required: give the text to search for")
	}
	if n := utf8.RuneCountInString(text); n > MaxSearchText {
		return nil, fleet.InvalidField("text", "text has %d characters and the limit is %d", n, MaxSearchText)
	}
	if err := s.refreshAgents(ctx); err != nil {
		return nil, err
	}
	result := &SearchResult{}
	lower := strings.ToLower(text)
	for _, v := range s.snap.All() {
		if len(result.Agents) == most {
			break
		}
		if v.Toolset == fleet.ToolsetFleet && p.Sees(&v.Agent) && containsAny(lower, v.Name, v.Project, v.Role) {
			result.Agents = append(result.Agents, v)
		}
	}
	owner, sharedUIDs, err := s.ownerFilter(ctx, p)
	if err != nil {
		return nil, err
	}
	tasks := fleet.TaskFilter{Owner: owner, SharedUIDs: sharedUIDs, Projects: p.Projects, Text: text, Toolset: new(fleet.ToolsetFleet)}
	questions := fleet.QuestionFilter{Owner: owner, SharedUIDs: sharedUIDs, Projects: p.Projects, Waiting: true}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		found, err := tx.FindTasks(tasks, fleet.TaskWindow{Limit: most})
		if err != nil {
			return err
		}
		result.Tasks = found.Tasks
		waiting, _, err := tx.Questions(questions, maxWaitingQuestions, 0)
		result.Questions = nil
		for _, q := range waiting {
			if len(result.Questions) < most && containsAny(lower, q.Text, q.Tool) {
				result.Questions = append(result.Questions, q)
			}
		}
		return err
	})
	return result, err
}

// containsAny reports whether one of the texts contains wanted, ignoring case. wanted is in lower case.
func containsAny(wanted string, texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), wanted) {
			return true
		}
	}
	return false
}
