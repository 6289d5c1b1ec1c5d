package service

import "fleet/internal/fleet"

// errAgentBusy returns AGENT_BUSY for an agent that works on the task t, or whose program somebody uses on a terminal.
func errAgentBusy(name string, t *fleet.Task) *fleet.Error {
	if terminal := t.Options.Attached; terminal != nil {
		return fleet.Errorf(fleet.ReasonAgentBusy, "%s has been using the program of agent %q on a terminal since %s", terminal.By, name, t.StartedAt.UTC().Format("2006-01-02 15:04 MST")).
			Next("wait until they leave it with {wait_tasks}, or end it with {stop_agent_task}").With("agent_name", name).With("task_id", t.ID).With("attached", terminal.By)
	}
	return fleet.Errorf(fleet.ReasonAgentBusy, "agent %q already has a running task, %s (%s)", name, t.ID, t.Title()).
		Next("wait for it with {wait_tasks}, or stop it with {stop_agent_task}").With("agent_name", name).With("task_id", t.ID)
}

// errAgentOffline returns AGENT_OFFLINE, and says why the agent can take no task and what the caller can do.
func errAgentOffline(v *fleet.AgentView) *fleet.Error {
	a := &v.Agent
	if a.Host.ClosedReason != "" && a.State == fleet.StateRunning && a.Desired == fleet.DesiredRunning {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q accepts no tasks: %s", a.Name, a.Host.ClosedReason).With("agent_name", a.Name).With("state", string(a.State)).
			Next("an operator can add what is missing to the configuration and call {reload_config}, and {delete_agent} deletes the agent")
	}
	what, next := string(a.State), "{start_agent} starts it"
	switch {
	case a.State.Moving():
		next = "{show_agent} shows when it is ready"
	case a.State == fleet.StateUnhealthy && v.Task != nil:
		next = "its task may still run: {wait_tasks} waits for it, and {restart_agent} ends it"
	case a.State == fleet.StateUnhealthy:
		next = "{show_agent_log} shows why, and {restart_agent} starts it again"
	}
	if a.StateReason != "" {
		what += " (" + a.StateReason + ")"
	}
	return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q is offline, its workspace is %s", a.Name, what).Next(next).
		With("agent_name", a.Name).With("state", string(a.State))
}

// errNoRunningTask returns the error for a call that needs a running task, if the agent has none: AGENT_OFFLINE if the agent is offline,
// and NO_RUNNING_TASK otherwise.
func errNoRunningTask(v *fleet.AgentView) *fleet.Error {
	if v.Status() == fleet.StatusOffline {
		return errAgentOffline(v)
	}
	return fleet.Errorf(fleet.ReasonNoRunningTask, "agent %q has no running task", v.Name).With("agent_name", v.Name).
		Next("{show_agent_task_history} shows its earlier tasks")
}
