package cli

import (
	"regexp"
	"strings"
)

// commands are the tools that the server's messages name, as they are called here.
var commands = map[string]string{
	"create_agent": "agent create", "list_agents": "agent list", "show_agent": "agent show", "delete_agent": "agent delete",
	"start_agent": "agent start", "stop_agent": "agent stop", "restart_agent": "agent restart", "show_agent_log": "agent log",
	"start_agent_task": "task run", "stop_agent_task": "task stop", "show_agent_task_history": "task list", "list_tasks": "task list", "delete_task": "task delete", "show_task": "task show", "show_task_changes": "task diff", "download_task_payload": "task download",
	"wait_tasks": "task wait", "send_task_message": "task message", "watch_fleet": "watch",
	"list_questions": "questions", "answer_question": "answer",
	"list_agent_projects": "project list", "list_agent_roles": "role list",
	"create_token": "token create", "list_tokens": "token list", "revoke_token": "token revoke",
}

var tool = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// inCommands says a message of the server in the words of the command line. Its advice, the last clause, gives way to
// the hint, which names the agent too.
func inCommands(message, hint string, set *toolset) string {
	if i := strings.LastIndex(message, ": "); i > 0 && hint != "" && namesTool(message[i:], set) {
		return message[:i]
	}
	return inCommandsOf(message, set)
}

// inCommandsOf says a text with the commands for the tools that it names.
func inCommandsOf(text string, set *toolset) string {
	return tool.ReplaceAllStringFunc(text, func(name string) string {
		if c := commandOf(name, set); c != "" {
			return `"fleet ` + c + `"`
		}
		return name
	})
}

// commandOf is the command for a tool; empty when there is none. Names mean the tools of the toolset that speaks, if it
// has one of the name, then those of the fleet's agents and tasks, then any.
func commandOf(name string, set *toolset) string {
	if c := set.commandOf(name); c != "" {
		return c
	}
	if c := commands[name]; c != "" {
		return c
	}
	for _, t := range toolsets() {
		if c := t.commandOf(name); c != "" {
			return c
		}
	}
	return ""
}

// commandOf is the toolset's own command for a tool.
func (t *toolset) commandOf(name string) string {
	if t != nil {
		for _, m := range t.methods {
			if m.tool() == name {
				return t.name + " " + m.command
			}
		}
	}
	return ""
}

func namesTool(text string, set *toolset) bool {
	for _, name := range tool.FindAllString(text, -1) {
		if commandOf(name, set) != "" {
			return true
		}
	}
	return false
}
