package record

import (
	"errors"
	"fmt"

	"fleet/internal/fleet"
)

// nameTakenError returns the error for a write of the agent that failed because another agent has the name.
func nameTakenError(a *fleet.Agent, err error) error {
	return fleet.Errorf(fleet.ReasonAgentExists, "an agent named %q already exists: choose another name, or delete that agent first", a.Name).WithCause(err)
}

// agentError returns the error for a write of the agent that failed for another reason. verb is for the message, such as "add".
func agentError(verb string, a *fleet.Agent, err error) error {
	return fmt.Errorf("%s agent %s: %w", verb, a.UID, err)
}

// TaskError returns the error for a failed write of the task. verb is for the message. agentBusy means that the agent has
// another active task, and ended means that the store refused to change an ended task.
func TaskError(verb string, t *fleet.Task, err error, agentBusy, ended bool) error {
	switch {
	case agentBusy:
		return fleet.Errorf(fleet.ReasonAgentBusy,
			"agent %q already has a running task: wait for it, or stop it first", t.AgentName).WithCause(err)
	case ended:
		err = errors.New("it has ended, and an ended task is never changed")
	}
	return fmt.Errorf("%s task %s: %w", verb, t.ID, err)
}
