package record

import (
	"errors"
	"fmt"

	"fleet/internal/fleet"
)

// AgentError returns the error of an act on the agent. taken says that the owner has another agent of the name.
func AgentError(act string, a *fleet.Agent, err error, taken bool) error {
	if taken {
		return fleet.Errorf(fleet.ReasonAgentExists,
			"an agent named %q already exists: choose another name, or delete that agent first", a.Name).WithCause(err)
	}
	return fmt.Errorf("%s agent %s: %w", act, a.UID, err)
}

// TaskError returns the error of an act on the task. busy says that its agent has another active task, and ended that the
// store refused to change an ended task.
func TaskError(act string, t *fleet.Task, err error, busy, ended bool) error {
	switch {
	case busy:
		return fleet.Errorf(fleet.ReasonAgentBusy,
			"agent %q already has a running task: wait for it, or stop it first", t.AgentName).WithCause(err)
	case ended:
		err = errors.New("it has ended, and an ended task is never changed")
	}
	return fmt.Errorf("%s task %s: %w", act, t.ID, err)
}

// SessionError returns the error of an act on the session. taken says that another open session has its key.
func SessionError(act string, s *fleet.Session, err error, taken bool) error {
	if taken {
		return fleet.Errorf(fleet.ReasonSessionExists, "an open session with this key already exists").WithCause(err)
	}
	return fmt.Errorf("%s session %s: %w", act, s.ID, err)
}
