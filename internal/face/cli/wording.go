package cli

import (
	"regexp"
	"strings"
)

// commands are the tools that the server's messages name, as they are called here.
var commands = map[string]string{
	"create_agent": "agent create", "list_agents": "agent list", "show_agent": "agent show", "delete_agent": "agent delete",
	"start_agent": "agent start", "stop_agent": "agent stop", "restart_agent": "agent restart", "show_agent_log": "agent log",
	"start_agent_task": "task run", "stop_agent_task": "task stop", "show_agent_task_history": "task list", "show_task": "task show",
	"wait_tasks": "task wait", "send_task_message": "task message", "watch_fleet": "watch",
	"list_agent_projects": "project list", "list_agent_roles": "role list",
	"create_token": "token create", "list_tokens": "token list", "revoke_token": "token revoke",
}

var tool = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// inCommands says a message of the server in the words of the command line. Its advice, the last clause, gives way to
// the hint, which names the agent too.
func inCommands(message, hint string) string {
	if i := strings.LastIndex(message, ": "); i > 0 && hint != "" && namesTool(message[i:]) {
		return message[:i]
	}
	return tool.ReplaceAllStringFunc(message, func(name string) string {
		if c, ok := commands[name]; ok {
			return `"fleet ` + c + `"`
		}
		return name
	})
}

func namesTool(text string) bool {
	for _, name := range tool.FindAllString(text, -1) {
		if _, ok := commands[name]; ok {
			return true
		}
	}
	return false
}
