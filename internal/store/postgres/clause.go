package postgres

import (
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// clause collects the conditions and the arguments of a query.
type clause struct {
	where string // each condition followed by AND
	args  []any
}

// arg adds an argument and returns its placeholder.
func (c *clause) arg(v any) string {
	c.args = append(c.args, v)
	return placeholder(len(c.args))
}

// add adds a condition in which each question mark stands for v.
func (c *clause) add(condition string, v any) {
	c.where += strings.ReplaceAll(condition, "?", c.arg(v)) + ` AND `
}

// addVisible adds the condition that a row belongs to the owner or to one of the shared agents. It adds nothing if owner
// is "".
func (c *clause) addVisible(owner string, shared []string) {
	switch {
	case owner == "":
	case len(shared) == 0:
		c.add(`owner = ?`, owner)
	default:
		c.where += `(owner = ` + c.arg(owner) + ` OR agent_uid = ANY(` + c.arg(shared) + `)) AND `
	}
}

// addProjects adds the condition that a row belongs to an agent of one of the projects. It adds nothing if there are no
// projects.
func (c *clause) addProjects(projects []string) {
	if len(projects) > 0 {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE project <> '' AND (project = ANY(?) OR place || '/' || project = ANY(?)))`, projects)
	}
}

// addSelector adds the condition that the labels of a row's task or, if it has none, of its agent match.
func (c *clause) addSelector(s fleet.Selector) {
	if len(s) > 0 {
		matches := func() string { return strings.Join(record.SelectorConditions(s, dialect.InList, c.arg), ` AND `) }
		c.where += `CASE WHEN task_id <> '' THEN EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = task_id AND ` + matches() +
			`) ELSE EXISTS (SELECT 1 FROM agents AS a WHERE a.uid = agent_uid AND ` + matches() + `) END AND `
	}
}

// addAfter adds the condition that a task comes after the position in lists, so that it is older.
func (c *clause) addAfter(p position) {
	c.where += `(created_at, n) < (` + c.arg(p.createdAt) + `, ` + c.arg(p.n) + `) AND `
}

// addTaskFilter adds the conditions of the filter for tasks.
func (c *clause) addTaskFilter(f fleet.TaskFilter) {
	c.addVisible(f.Owner, f.SharedUIDs)
	c.addProjects(f.Projects)
	if f.AgentUID != "" {
		c.add(`agent_uid = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE name_key = ?)`, record.NameKey(f.AgentName))
	}
	if f.Toolset != nil {
		c.add(`toolset = ?`, string(*f.Toolset))
	}
	if f.Place != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE place = ?)`, f.Place)
	}
	if f.Role != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE role = ?)`, f.Role)
	}
	if f.Project != "" {
		c.add(`project = ?`, f.Project)
	}
	if f.Status != "" {
		c.add(`status = ?`, string(f.Status))
	}
	if f.Ended {
		c.where += `status NOT IN ('pending', 'running') AND `
	}
	if f.RootID != "" {
		root := c.arg(f.RootID)
		c.where += `(root_id = ` + root + ` OR id = ` + root + `) AND `
	}
	if f.ParentID != "" {
		c.add(`parent_id = ?`, f.ParentID)
	}
	if f.Active || f.Status == fleet.TaskRunning || f.Status == fleet.TaskPending {
		c.where += record.ActiveCondition + ` AND ` // without this, a plan for any status could not use the indexes of these tasks
	}
	if f.Source != "" {
		c.add(`source = ?`, string(f.Source))
	}
	if len(f.LandingStates) > 0 {
		c.where += record.LandingCondition(`id`, f.LandingStates, dialect.InList, c.arg) + ` AND `
	}
	for _, condition := range record.SelectorConditions(f.Selector, dialect.InList, c.arg) {
		c.where += condition + ` AND `
	}
	if !f.Since.IsZero() {
		c.add(`created_at >= ?`, f.Since)
	}
	if !f.Until.IsZero() {
		c.add(`created_at < ?`, f.Until)
	}
	if f.Text != "" {
		c.addText(f.Text)
	}
}
