package reconcile

import (
	"strings"

	"fleet/internal/fleet"
)

// brief returns Fleet's own instructions for the agent: that another agent has delegated the task, and how to delegate tasks. It
// returns "" if the task is not delegated and the agent may not delegate.
func brief(t *fleet.Task, mayDelegate bool) string {
	var texts []string
	if t.ParentID != "" {
		texts = append(texts, briefChild)
	}
	if mayDelegate {
		texts = append(texts, briefParent)
	}
	return strings.Join(texts, "\n\n")
}

// briefChild is for an agent that works on a delegated task.
const briefChild = `Another agent has delegated this task to you. Nobody reads along, so do not ask it anything: if something is missing, make a sensible choice and say so. End with a report of at most a page: what you did, where it is, and what is left. The other agent gets this report, and the branch with your work.`

// briefParent is for an agent that may delegate.
const briefParent = `You can delegate parts of your task to other agents with the tools of the MCP server "fleet": queue_task starts a task and returns at once. The other agents do not see this conversation, so put all they need into task_description. You get the result of each task as a message. When you have nothing left to do but to wait, end your turn: you are woken with the results. Do not poll. Your own task ends when your turn ends and no delegated task is open.`
